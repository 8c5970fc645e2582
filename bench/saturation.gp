# Draws how much faster than the client alone servers are; called by bench/saturation, which defines:
#   pictures          network-operation-contender, one for each panel
#   dir, output       where data comes from, and the pictures go
# Each panel: message size across, operations outstanding up, the ratio as colour and number.

set encoding utf8
ink   = '#24292f'
quiet = '#8c959f'
columns = 4
rows  = (words(pictures) + columns - 1) / columns

set palette defined (0 '#c2255c', 0.5 '#f8c8d6', 0.97 '#ffffff', 1.03 '#ffffff', 1.5 '#b2e0c2', \
    2 '#2f9e44')
set cbrange [0:2]
set border 3 lc rgb quiet
set tics nomirror out textcolor rgb ink
set logscale x 2
set logscale y 2
set xtics ('8' 8, '64' 64, '512' 512, '4K' 4096, '32K' 32768, '256K' 262144, \
    '2M' 2097152)
set ytics (1, 8, 64, 256)
set xrange [3:6000000]
set yrange [0.4:640]
unset key
unset colorbox

do for [terminal in 'svg png'] {
    if (terminal eq 'svg') {
        set terminal svg size 1240,60+260*rows enhanced font 'DejaVu Sans,11' background '#ffffff'
    } else {
        set terminal pngcairo size 1860,90+390*rows enhanced font 'DejaVu Sans,11' fontscale 1.4 \
            background '#ffffff'
    }
    set output output . '.' . terminal
    set multiplot layout rows,columns title \
        "Rate with servers / rate of the client alone\n{/=10 bytes across, operations outstanding up}" \
        textcolor rgb ink
    do for [name in pictures] {
        set title name textcolor rgb ink offset 0,-0.5
        plot dir . '/' . name . '.dat' using 1:2:3 with points pt 5 ps 3.4 palette, \
            '' using 1:2:(sprintf('%.2f', $3)) with labels font ',8' textcolor rgb ink
    }
    unset multiplot
    unset output
}
