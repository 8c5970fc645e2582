# Draws collectives on a simulated machine; called by bench/simulated, which defines:
#   dir, output       where data comes from, and the pictures go
#   tasks, bytes      "type-row" of what there is, by the number of tasks and of bytes
#   node, large       tasks of a node, and of the job whose collectives are by bytes
# Strong lines: rows that know of nodes; thin ones: rows that do not.

set encoding utf8
ink    = '#24292f'
quiet  = '#8c959f'
raster = '#e4e7eb'

rows = 'Auto-shared Auto-messages Hierarchical-shared PipelinedHierarchical-shared ' \
    . 'MultiLeader-shared Dissemination Tree8 Binomial RecursiveDoubling PipelinedBinomial ' \
    . 'ScatterRing TwoTrees Rabenseifner Ring'
colours = '#c2255c #c2255c #e8590c #f08c00 #9c36b5 #1971c2 #0c8599 #2f9e44 #1971c2 #0c8599 ' \
    . '#495057 #5c940d #868e96 #495057'
find(list, who) = sum [i = 1:words(list)] (word(list, i) eq who ? i : 0)
is_strong(row) = strstrt(row, '-') > 0
name(row) = row eq 'Auto-shared' ? 'Auto, shared memory free' \
    : row eq 'Auto-messages' ? 'Auto, messages inside nodes' \
    : is_strong(row) ? row[1:strstrt(row, '-') - 1] : row
colour(row) = word(colours, find(rows, row))
dash(row) = strstrt(row, '-messages') > 0 ? 2 : 1
wide(row) = is_strong(row) ? 2.6 : 1.4
# Rows of a type of which there is a line, in the order of `rows`.
of(type, list, i) = i > words(rows) ? '' : (find(list, type . '-' . word(rows, i)) \
    ? word(rows, i) . ' ' : '') . of(type, list, i + 1)
data(picture, type, row) = dir . '/' . picture . '-' . type . '-' . row . '.dat'

set border 3 lc rgb quiet lw 1
set tics nomirror textcolor rgb ink
set grid xtics ytics lt 1 lc rgb raster lw 1
set key top left textcolor rgb ink samplen 2.0 spacing 1.1 Left reverse font ',9'
set logscale x 2
set logscale y 10
set ylabel 'µs of virtual time' textcolor rgb ink

do for [terminal in 'svg png'] {
    if (terminal eq 'svg') {
        set terminal svg size 1240,900 enhanced font 'DejaVu Sans,11' background '#ffffff' dynamic
    } else {
        set terminal pngcairo size 1860,1350 enhanced font 'DejaVu Sans,11' fontscale 1.4 \
            background '#ffffff' linewidth 1.4
    }
    set output output . '.' . terminal
    set multiplot layout 2,3 title sprintf("{/:Bold=15 Collectives on a simulated machine}\n" \
        . "{/=10 virtual time; nodes of %d tasks; above: 8 bytes, by tasks; below: %d tasks, by bytes}", \
        node, large) textcolor rgb ink
    set xlabel 'tasks' textcolor rgb ink
    set xtics ('32' 32, '128' 128, '512' 512, '2 Ki' 2048, '8 Ki' 8192, '32 Ki' 32768)
    set xrange [24:*]
    set yrange [0.1:*]
    do for [type in 'barrier broadcast allreduce'] {
        set title type textcolor rgb ink
        list = of(type, tasks, 1)
        plot for [row in list] data('tasks', type, row) using 1:2 with linespoints \
            lc rgb colour(row) dt dash(row) lw wide(row) pt 7 ps 0.5 title name(row)
    }
    set xlabel 'bytes' textcolor rgb ink
    set xtics ('8' 8, '256' 256, '4 Ki' 4096, '64 Ki' 65536, '1 Mi' 1048576)
    set xrange [6:*]
    set yrange [1:*]
    do for [type in 'broadcast allreduce'] {
        set title type textcolor rgb ink
        list = of(type, bytes, 1)
        plot for [row in list] data('bytes', type, row) using 1:2 with linespoints \
            lc rgb colour(row) dt dash(row) lw wide(row) pt 7 ps 0.5 title name(row)
    }
    unset multiplot
    unset output
}
