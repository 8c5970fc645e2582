# Draws the pictures of a benchmark run; called by bench/run, which defines:
#   outdir, datadir   where pictures go and data come from
#   machine           for the subtitle
#   latency, bandwidth, rate, token, threads, overlap_*   for each picture, the contenders that have
#                     data
# Lines are medians over rounds, bars around them minimum and maximum.

set encoding utf8
ink    = '#24292f'
quiet  = '#8c959f'
raster = '#e4e7eb'

set style line 1  lc rgb '#c2255c' lw 3.2 pt 7  ps 0.75            # ours
set style line 2  lc rgb '#1971c2' lw 1.8 pt 5  ps 0.65            # Open MPI
set style line 3  lc rgb '#0c8599' lw 1.8 pt 9  ps 0.75            # Open MPI over UCX
set style line 4  lc rgb '#2f9e44' lw 1.8 pt 11 ps 0.75            # MPICH
set style line 5  lc rgb '#e8590c' lw 1.6 pt 4  ps 0.65 dt (6,4)   # UCX tag
set style line 6  lc rgb '#f08c00' lw 1.6 pt 8  ps 0.75 dt (6,4)   # UCX am
set style line 7  lc rgb '#9c36b5' lw 1.6 pt 10 ps 0.75 dt (6,4)   # UCX uct
set style line 8  lc rgb '#868e96' lw 1.6 pt -1 dt (2,3)           # limit
set style line 9  lc rgb '#495057' lw 1.6 pt -1 dt (8,3,2,3)       # limit of the kernel's copy

set style line 10 lc rgb '#c2255c' lw 1.8 pt 6  ps 0.75 dt (6,4)   # ours, polls
set style line 11 lc rgb '#c2255c' lw 1.4 pt -1 dt (2,3)           # ours, no help
set style line 12 lc rgb '#2f9e44' lw 1.8 pt 10 ps 0.75 dt (6,4)   # MPICH, thread

all    = 'ours openmpi openmpi-ucx mpich ucx-tag ucx-am uct'
limit1 = 'latency_copy bandwidth_copy token_ring'
find(list, who) = sum [i = 1:words(list)] (word(list, i) eq who ? i : 0)
style(who) = find(all, who) ? find(all, who) : find(limit1, who) ? 8 : 9
label(who) = who eq 'ours' ? 'libpami' \
    : who eq 'openmpi' ? 'Open MPI' \
    : who eq 'openmpi-ucx' ? 'Open MPI / UCX' \
    : who eq 'mpich' ? 'MPICH' \
    : who eq 'ucx-tag' ? 'UCX tag *' \
    : who eq 'ucx-am' ? 'UCX am *' \
    : who eq 'uct' ? 'UCX uct *' \
    : who eq 'token_ring' ? 'a word by hand' \
    : find(limit1, who) ? 'one memcpy by hand' : 'one kernel copy by hand'
ways   = 'ours-thread ours-polls ours-none openmpi-polls mpich-polls mpich-thread'
style_of_way(who) = word('1 10 11 2 4 12', find(ways, who)) + 0
label_of_way(who) = word("'libpami, thread' 'libpami, polls' 'libpami, no help' 'Open MPI, polls' \
    'MPICH, polls' 'MPICH, thread'", find(ways, who))
data(picture, who) = datadir . '/' . picture . '-' . who . '.dat'

set border 3 lc rgb quiet lw 1
set tics nomirror textcolor rgb ink
set grid xtics ytics lt 1 lc rgb raster lw 1
set key outside right top textcolor rgb ink samplen 2.4 spacing 1.25 Left reverse
set tmargin 4.2
set lmargin 10
set bmargin 4.4

do for [terminal in 'svg png'] {
    if (terminal eq 'svg') {
        set terminal svg size 980,520 enhanced font 'DejaVu Sans,13' background '#ffffff' dynamic
    } else {
        set terminal pngcairo size 1470,780 enhanced font 'DejaVu Sans,13' fontscale 1.35 \
            background '#ffffff' linewidth 1.4
    }
    heading(text, what) = sprintf("{/:Bold=%d %s}\n{/=%d %s}", 16, text, 11, what)

    # ---- latency by size
    if (words(latency) > 0) {
        set output outdir . '/latency.' . terminal
        set title heading('Active-message latency between two tasks on two cores', \
            'half round trip, buffers rewritten before each send (* not rewritten); ' . machine) \
            textcolor rgb ink
        set xlabel 'message size (bytes)' textcolor rgb ink
        set ylabel 'µs' textcolor rgb ink
        set logscale x 2
        set logscale y 10
        set xrange [6:6291456]
        set yrange [*:*]
        set xtics ('8' 8, '64' 64, '512' 512, '4 Ki' 4096, '32 Ki' 32768, '256 Ki' 262144, \
            '2 Mi' 2097152)
        set ytics autofreq
        set mytics 10
        plot for [c in latency] data('latency', c) using 1:3:(0):($4 - $3) with vectors \
                nohead lc rgb quiet lw 0.9 notitle, \
            for [c in latency] data('latency', c) using 1:2 with linespoints ls style(c) \
                title label(c)
        unset logscale
        unset mytics
    }

    # ---- bandwidth by size
    if (words(bandwidth) > 0) {
        set output outdir . '/bandwidth.' . terminal
        set title heading('Active-message bandwidth, one way', \
            'a window of messages, buffers rewritten before each send; ' . machine) \
            textcolor rgb ink
        set xlabel 'message size (bytes)' textcolor rgb ink
        set ylabel 'GB/s' textcolor rgb ink
        set logscale x 2
        set xrange [3072:5592405]
        set yrange [0:*]
        set xtics ('4 Ki' 4096, '16 Ki' 16384, '64 Ki' 65536, '256 Ki' 262144, '1 Mi' 1048576, \
            '4 Mi' 4194304)
        set ytics autofreq
        plot for [c in bandwidth] data('bandwidth', c) using 1:3:(0):($4 - $3) with vectors \
                nohead lc rgb quiet lw 0.9 notitle, \
            for [c in bandwidth] data('bandwidth', c) using 1:2 with linespoints ls style(c) \
                title label(c)
        unset logscale
    }

    # ---- message rate: bars by number of senders
    if (words(rate) > 0) {
        set output outdir . '/rate.' . terminal
        set title heading('Rate of 8-byte messages to one receiver', \
            'one sender: two tasks on two cores; more: tasks outnumber cores; ' . machine) \
            textcolor rgb ink
        set xlabel 'senders' textcolor rgb ink
        set ylabel 'million messages per second' textcolor rgb ink
        set xrange [-0.6:2.6]
        set yrange [0:*]
        set xtics ('1' 0, '2' 1, '4' 2)
        set ytics autofreq
        set style fill solid 0.9 noborder
        plot for [c in rate] data('rate', c) using 5:2:(0.097) with boxes \
                ls style(c) dt 1 title label(c), \
            for [c in rate] data('rate', c) using 5:3:(0):($4 - $3) with vectors \
                nohead lc rgb ink lw 1.1 notitle
    }

    # ---- threads: bars by number of threads
    if (words(threads) > 0) {
        set output outdir . '/threads.' . terminal
        set title heading('Message rate by threads, each through a context of its own', \
            'one process, 8-byte messages to itself, one core for each thread up to two; ' \
            . machine) textcolor rgb ink
        set xlabel 'threads' textcolor rgb ink
        set ylabel 'million messages per second' textcolor rgb ink
        set xrange [-0.6:2.6]
        set yrange [0:*]
        set xtics ('1' 0, '2' 1, '4' 2)
        set ytics autofreq
        set style fill solid 0.9 noborder
        plot for [c in threads] data('threads', c) using 5:2:(0.097) with boxes \
                ls style(c) dt 1 title label(c), \
            for [c in threads] data('threads', c) using 5:3:(0):($4 - $3) with vectors \
                nohead lc rgb ink lw 1.1 notitle
    }

    # ---- overlap by size: the place of 0 bytes is 16
    do for [kind in 'message allreduce alltoall'] {
        list = value('overlap_' . kind)
        if (words(list) > 0) {
            picture = 'overlap_' . kind
            set output outdir . '/' . picture . '.' . terminal
            set title heading(kind . ': hidden behind computation', \
                'part of the time that it takes alone; two tasks on two cores; ' . machine) \
                textcolor rgb ink
            set xlabel 'bytes' textcolor rgb ink
            set ylabel '%' textcolor rgb ink
            set logscale x 2
            set xrange [12:5592405]
            set yrange [-50:105]
            set xtics ('0' 16, '64' 64, '1 Ki' 1024, '16 Ki' 16384, '256 Ki' 262144, \
                '4 Mi' 4194304)
            set ytics 25
            plot for [c in list] data(picture, c) using ($1 < 16 ? 16 : $1):2 with linespoints \
                ls style_of_way(c) title label_of_way(c)
            unset logscale
        }
    }

    # ---- token ring
    if (words(token) > 0) {
        set output outdir . '/token.' . terminal
        set title heading('A token passed round more tasks than cores', \
            'per hop, tasks not pinned; ' . machine) textcolor rgb ink
        set xlabel 'tasks on two cores' textcolor rgb ink
        set ylabel 'µs' textcolor rgb ink
        set logscale x 2
        set xrange [3.5:18]
        set yrange [0:*]
        set xtics (4, 8, 16)
        set ytics autofreq
        plot for [c in token] data('token', c) using 1:3:(0):($4 - $3) with vectors \
                nohead lc rgb quiet lw 0.9 notitle, \
            for [c in token] data('token', c) using 1:2 with linespoints ls style(c) \
                title label(c)
        unset logscale
    }
}
set output
