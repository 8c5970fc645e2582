# Turns measures into data files, one per picture and contender, and has gnuplot draw them.
package Plots;

use strict;
use warnings;
use File::Path qw(make_path);

use constant BAR => 0.11;    # width of a bar and its gap, as plot.gp has it

# The lines of overlap: the three ways of libpami, and those of the others.
sub overlap_lines
{
    my ($kind) = @_;
    my %lines = map { ("ours-$_" => ['ours', "overlap_${kind}_$_"]) } qw(thread polls none);
    $lines{"$_-polls"} = [$_, "overlap_${kind}_polls"] for qw(openmpi mpich);
    $lines{'mpich-thread'} = ['mpich-thread', "overlap_${kind}_thread"];
    return \%lines;
}

# Per picture: the suites it shows and, for each, which measures of contenders and limits; or lines,
# each with its contender and measure.
my @pictures = (
    { name => 'latency',   suites => ['latency'],   ours => 'am_latency',
        limits => ['latency_copy', 'latency_cma'] },
    { name => 'bandwidth', suites => ['bandwidth'], ours => 'am_bandwidth',
        limits => ['bandwidth_copy', 'bandwidth_cma'], without => qr/^uc[tx]/ },
    { name => 'rate',      suites => ['rate', 'rate-2', 'rate-4'], ours => 'am_rate',
        limits => [] },
    { name => 'token',     suites => ['token-4', 'token-8', 'token-16'], ours => 'token',
        limits => ['token_ring'] },
    { name => 'threads',   suites => ['threads-self'], ours => 'context_self', limits => [] },
    map({ { name => "overlap_$_", suites => ['overlap'], lines => overlap_lines($_) } }
        qw(message allreduce alltoall)),
);
my @order = qw(ours openmpi openmpi-ucx mpich ucx-tag ucx-am uct latency_copy latency_cma
    bandwidth_copy bandwidth_cma token_ring ours-thread ours-polls ours-none openmpi-polls
    mpich-polls mpich-thread);

sub draw
{
    my ($measures, $build, $script, $machine) = @_;
    my $dir = "$build/bench/plots";
    my @definitions = ("outdir='$build/bench'", "datadir='$dir'", "machine='$machine'");
    my $drawn = 0;

    make_path($dir);
    for my $picture (@pictures) {
        my @present = write_data($picture, $measures, $dir);
        push @definitions, "$picture->{name}='@present'";
        $drawn += $picture->{drawn} = @present;
    }
    return if !$drawn;
    if (system('gnuplot', '-e', join('; ', @definitions), $script) != 0) {
        warn "bench: no pictures: gnuplot is missing or failed\n";
        return;
    }
    my $names = join ',', map { $_->{name} } grep { $_->{drawn} } @pictures;
    print "pictures: $build/bench/{$names}.{svg,png}\n";
}

# Returns the contenders that have data.
sub write_data
{
    my ($picture, $measures, $dir) = @_;
    my %suite = map { $_ => 1 } @{ $picture->{suites} };
    my %limit = map { $_ => 1 } @{ $picture->{limits} };
    my %named = map { (join(',', @{ $picture->{lines}{$_} }) => $_) } keys %{ $picture->{lines} // {} };
    my %lines;

    for my $m (grep { $suite{ $_->{suite} } } @$measures) {
        if ($picture->{lines}) {
            my $line = $named{"$m->{contender},$m->{measure}"};
            push @{ $lines{$line} }, $m if $line;
            next;
        }
        my $who = $m->{contender} eq 'limit' ? $m->{measure} : $m->{contender};
        next if $picture->{without} && $who =~ $picture->{without};
        next if $m->{contender} eq 'limit' ? !$limit{$who} : $m->{measure} ne $picture->{ours};
        push @{ $lines{$who} }, $m;
    }
    place_bars([grep { defined } map { $lines{$_} } @order]);
    unlink glob "$dir/$picture->{name}-*.dat";
    for my $who (keys %lines) {
        my $file = "$dir/$picture->{name}-$who.dat";
        open my $f, '>', $file or do { warn "bench: $file: $!\n"; next };
        print $f "# parameter median min max place\n";
        print $f join(' ', @{$_}{qw(parameter median min max place)}), "\n"
            for sort { $a->{parameter} <=> $b->{parameter} } @{ $lines{$who} };
        close $f;
    }
    return grep { $lines{$_} } @order;
}

# For bars: those with the same parameter stand side by side, centred on the parameter's number.
sub place_bars
{
    my ($lines) = @_;
    my %group;

    for my $m (map { @$_ } @$lines) {
        push @{ $group{ $m->{parameter} } }, $m;
    }
    my @parameters = sort { $a <=> $b } keys %group;
    for my $i (0 .. $#parameters) {
        my $bars = $group{ $parameters[$i] };
        $bars->[$_]{place} = $i + ($_ - $#$bars / 2) * BAR for 0 .. $#$bars;
    }
}

1;
