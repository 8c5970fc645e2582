# Draws the curves of collectives; called by lib/Curves.pm, which defines:
#   outdir, datadir   where pictures go and data come from
#   machine           for the subtitle
#   there             the names of the files with data, without .dat
# Lines are medians over rounds, bars around them minimum and maximum.

set encoding utf8
ink    = '#24292f'
quiet  = '#8c959f'
raster = '#e4e7eb'

set style line 1 lc rgb '#c2255c' lw 3.0 pt 7  ps 0.7           # shared memory
set style line 2 lc rgb '#f08c00' lw 1.8 pt 9  ps 0.7           # messages
set style line 3 lc rgb '#2f9e44' lw 1.8 pt 11 ps 0.7           # two nodes
set style line 4 lc rgb '#c2255c' lw 1.8 pt 6  ps 0.7 dt (6,4)  # fixed root
set style line 5 lc rgb '#74c0fc' lw 1.8 pt 4  ps 0.6           # Open MPI, non-blocking
set style line 6 lc rgb '#1971c2' lw 1.8 pt 5  ps 0.6           # the best of Open MPI
set style line 7 lc rgb '#868e96' lw 1.6 pt -1 dt (2,3)         # limit
set style line 8  lc rgb '#7048e8' lw 1.8 pt 13 ps 0.7          # one buffer
set style line 9  lc rgb '#0c8599' lw 1.8 pt 2  ps 0.7          # two buffers
set style line 10 lc rgb '#7048e8' lw 1.8 pt 12 ps 0.7 dt (6,4) # one buffer, fixed root
set style line 11 lc rgb '#0c8599' lw 1.8 pt 1  ps 0.7 dt (6,4) # two buffers, fixed root
set style line 12 lc rgb '#5c3d1e' lw 1.8 pt 3  ps 0.7           # MPICH
set style line 13 lc rgb '#1971c2' lw 1.8 pt 4  ps 0.6 dt (6,4) # the best of Open MPI, fixed root
set style line 14 lc rgb '#5c3d1e' lw 1.8 pt 3  ps 0.7 dt (6,4) # MPICH, fixed root

all = 'ours ours-messages ours-nodes fixed-ours openmpi openmpi-best limit ' \
    . 'ours-one ours-two fixed-ours-one fixed-ours-two mpich fixed-openmpi-best fixed-mpich'
find(list, who) = sum [i = 1:words(list)] (word(list, i) eq who ? i : 0)
name(who) = who eq 'ours' ? 'libpami, four buffers' \
    : who eq 'ours-one' ? 'one buffer' \
    : who eq 'ours-two' ? 'two buffers' \
    : who eq 'ours-messages' ? 'libpami, messages' \
    : who eq 'ours-nodes' ? 'libpami, two nodes' \
    : who eq 'openmpi' ? 'Open MPI, non-blocking' \
    : who eq 'openmpi-best' ? 'Open MPI, its best' \
    : who eq 'mpich' ? 'MPICH' \
    : 'a counter by hand'
label(who) = who[1:6] eq 'fixed-' ? name(who[7:*]) . ', fixed root' : name(who)
data(name) = datadir . '/' . name . '.dat'
# Those of a list whose file "prefix-who" is there.
present(prefix, list, i) = i > words(list) ? '' \
    : (find(there, prefix . '-' . word(list, i)) ? word(list, i) . ' ' : '') \
        . present(prefix, list, i + 1)

set border 3 lc rgb quiet lw 1
set tics nomirror textcolor rgb ink
set grid xtics ytics lt 1 lc rgb raster lw 1
set key bottom right textcolor rgb ink samplen 2.0 spacing 1.15 Left reverse font ',10'
heading(text, what) = sprintf("{/:Bold=%d %s}\n{/=%d %s}", 15, text, 10, what)

do for [terminal in 'svg png'] {
    wide = terminal eq 'svg' ? 1180 : 1770
    high = terminal eq 'svg' ? 460 : 690
    if (terminal eq 'svg') {
        set terminal svg size wide,high enhanced font 'DejaVu Sans,12' background '#ffffff' dynamic
    } else {
        set terminal pngcairo size wide,high enhanced font 'DejaVu Sans,12' fontscale 1.35 \
            background '#ffffff' linewidth 1.4
    }

    # ---- latency by tasks
    if (strstrt(there, 'curves-') > 0) {
        set output outdir . '/coll-tasks.' . terminal
        set multiplot layout 1,3 title heading('Collectives one after the other, by tasks', \
            'tasks not pinned; 8 bytes; broadcasts with rotating roots and a barrier each; ' \
            . machine) textcolor rgb ink
        set xlabel 'tasks' textcolor rgb ink
        set ylabel 'µs' textcolor rgb ink
        set logscale x 2
        set logscale y 10
        set xrange [1.8:36]
        set yrange [*:*]
        do for [measure in 'barrier broadcast allreduce'] {
            set title measure textcolor rgb ink
            list = present('curves-' . measure, all, 1)
            if (words(list) > 0) {
                plot for [c in list] data('curves-' . measure . '-' . c) \
                        using 1:3:(0):($4 - $3) with vectors nohead lc rgb quiet lw 0.9 notitle, \
                    for [c in list] data('curves-' . measure . '-' . c) \
                        using 1:2 with linespoints ls find(all, c) title label(c)
            }
        }
        unset multiplot
        unset logscale
    }

    # ---- bandwidth of each task by size
    if (strstrt(there, 'bytes-') > 0) {
        set output outdir . '/coll-bytes.' . terminal
        set multiplot layout 1,2 title heading('Bandwidth of each task', \
            'bytes of the message by the time of a turn; solid: libpami, dashed: the best of Open MPI; ' \
            . machine) textcolor rgb ink
        set xlabel 'message size (bytes)' textcolor rgb ink
        set ylabel 'GB/s' textcolor rgb ink
        set logscale x 2
        set logscale y 10
        set xrange [3000:1500000]
        set yrange [*:*]
        set xtics ('4 Ki' 4096, '64 Ki' 65536, '1 Mi' 1048576)
        do for [measure in 'broadcast allreduce'] {
            set title measure textcolor rgb ink
            list = present('bytes-' . measure, '2-ours 4-ours 8-ours 16-ours 32-ours ' \
                . '2-openmpi-best 4-openmpi-best 8-openmpi-best 16-openmpi-best ' \
                . '32-openmpi-best', 1)
            tasks(c) = int(real(c[1:strstrt(c, '-') - 1]))
            is_ours(c) = strstrt(c, 'ours') > 0
            colour(c) = int(log(tasks(c)) / log(2) + 0.5)
            dash(c) = is_ours(c) ? 1 : 2
            width(c) = is_ours(c) ? 2.4 : 1.4
            if (words(list) > 0) {
                plot for [c in list] data('bytes-' . measure . '-' . c) \
                        using 1:($1 / $2 / 1000) with linespoints lt colour(c) \
                        dt dash(c) lw width(c) pt 7 ps 0.5 \
                        title (is_ours(c) ? sprintf('%d tasks', tasks(c)) : '')
            }
        }
        unset multiplot
        unset logscale
        set xtics autofreq
    }

    # ---- fixed and rotating roots
    if (strstrt(there, 'roots-') > 0) {
        set output outdir . '/coll-roots.' . terminal
        set title heading('Broadcasts of 8 bytes, one after the other, no barriers', \
            'tasks not pinned; ' . machine) textcolor rgb ink
        set xlabel 'tasks' textcolor rgb ink
        set ylabel 'µs' textcolor rgb ink
        set logscale x 2
        set logscale y 10
        set xrange [1.8:36]
        set yrange [*:*]
        list = present('roots-broadcast', all, 1)
        plot for [c in list] data('roots-broadcast-' . c) \
                using 1:3:(0):($4 - $3) with vectors nohead lc rgb quiet lw 0.9 notitle, \
            for [c in list] data('roots-broadcast-' . c) \
                using 1:2 with linespoints ls find(all, c) title label(c)
        unset logscale
    }
}
set output
