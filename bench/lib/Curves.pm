# The curves that papers about collectives show: latency by the number of tasks (messages, shared
# memory, by nodes), bandwidth of each task by size and tasks, fixed and rotating roots. Suites as in
# Suites.pm, only measured when they are named, and their pictures (curves.gp).
package Curves;

use strict;
use warnings;
use File::Path qw(make_path);
use Suites;

my @counts = (2, 4, 8, 16, 32);

# The rows of algorithms that know of no shared memory.
my @messages = ('PAMI_COLL_BARRIER=Dissemination', 'PAMI_COLL_BROADCAST=Binomial:0-32K,ScatterRing',
    'PAMI_COLL_ALLREDUCE=RecursiveDoubling:0-16K,Rabenseifner');

# Shared memory of one buffer for each member, and of two in turn; four without.
my %buffers = ('ours-one' => ['PAMI_COLL_SLICES=1'], 'ours-two' => ['PAMI_COLL_SLICES=2']);

sub row
{
    my ($measure, $bytes, $what, @more) = @_;
    return {
        id => $what, of => ["$measure,$bytes"], unit => 'us', better => 'less',
        target => [], says => '', unfair => [keys %buffers], @more,
    };
}

my @by_tasks = map {
    my $tasks = $_;
    my @size  = $tasks > 8 ? ('--max', '64k') : ();
    {
        name => "coll-curves-$tasks", group => 'coll-curves', tasks => $tasks, pin => 0,
        peers => ['ours-one', 'ours-two', 'ours-messages', $tasks > 2 ? 'ours-nodes' : (), 'openmpi'],
        what => "$tasks tasks: shared memory, also of one and two buffers, messages, two pretended nodes; "
            . 'us per turn',
        ours => ['coll', qw(barrier broadcast allreduce --loop), @size],
        mpi => ['mpi_coll', qw(barrier broadcast allreduce --loop), @size],
        settings => { 'ours-messages' => \@messages, %buffers },
        options => { 'ours-nodes' => ['--nodes', 2] },
        limit => ['limit_barrier', '--tasks', $tasks, '--loop'],
        rows => [
            row('barrier', 8, 'barrier', limit => ["barrier_central,$tasks"]),
            map({ my $bytes = $_; map { row($_, $bytes, "$_ $bytes B") } qw(broadcast allreduce) }
                8, 65536),
        ],
    }
} @counts;

my @fixed = qw(ours-fixed ours-one-fixed ours-two-fixed openmpi-fixed);

my @roots = map {
    my $tasks = $_;
    my @what  = qw(broadcast --loop --free --max 8);
    {
        name => "coll-roots-$tasks", group => 'coll-roots', tasks => $tasks, pin => 0,
        peers => [@fixed, 'ours-one', 'ours-two', 'openmpi'],
        what => "$tasks tasks: broadcasts of 8 bytes without barriers, rotating and fixed roots",
        settings => { %buffers, map { ("$_-fixed" => $buffers{$_}) } keys %buffers },
        ours => ['coll', @what], mpi => ['mpi_coll', @what],
        variants => { map { ($_ => ['coll', @what, '--fixed']) } grep { /^ours/ } @fixed },
        rows => [row('broadcast', 8, 'broadcast 8 B', unfair => [@fixed, keys %buffers])],
    }
} @counts;

our @suites = (@by_tasks, @roots);

%Suites::about_contender = (
    %Suites::about_contender,
    'ours-one' => 'libpami, shared memory, one buffer',
    'ours-two' => 'libpami, shared memory, two buffers in turn',
    'ours-one-fixed' => 'libpami, one buffer, the root always the same',
    'ours-two-fixed' => 'libpami, two buffers, the root always the same',
    'ours-messages' => 'libpami, algorithms over messages',
    'ours-nodes'    => 'libpami, the tasks on two pretended nodes',
    'ours-fixed'    => 'libpami, the root always the same',
    'openmpi-fixed' => 'Open MPI, the root always the same',
);

# ---- pictures ----

# Lines "x median min max" of a file for each curve; the names of those that are there.
sub write_curves
{
    my ($dir, $curves) = @_;

    for my $name (keys %$curves) {
        open my $f, '>', "$dir/$name.dat" or do { warn "bench: $dir/$name.dat: $!\n"; next };
        print $f "$_->[0] @{ $_->[1] }{qw(median min max)}\n"
            for sort { $a->[0] <=> $b->[0] } @{ $curves->{$name} };
        close $f;
    }
    return sort keys %$curves;
}

sub draw
{
    my ($measures, $build, $script, $machine) = @_;
    my $dir = "$build/bench/plots";
    my %curves;

    for my $m (@$measures) {
        next if $m->{suite} !~ /^coll-(curves|roots)-(\d+)$/;
        my ($picture, $tasks) = ($1, $2);
        my ($measure, $who) = @{$m}{qw(measure contender)};
        $measure = 'barrier' if $measure eq 'barrier_central';
        next if $m->{contender} eq 'limit' && $measure ne 'barrier';
        if ($picture eq 'roots' || $m->{parameter} == 8 || $m->{contender} eq 'limit') {
            push @{ $curves{"$picture-$measure-$who"} }, [$tasks, $m];
        }
        next if $picture eq 'roots' || $measure eq 'barrier' || $who !~ /^(?:ours|openmpi)$/;
        push @{ $curves{"bytes-$measure-$tasks-$who"} }, [$m->{parameter}, $m]
            if $m->{parameter} >= 4096;
    }
    return if !%curves;
    make_path($dir);
    unlink glob("$dir/curves-*.dat $dir/roots-*.dat $dir/bytes-*.dat");
    my @names = write_curves($dir, \%curves);
    my @definitions = ("outdir='$build/bench'", "datadir='$dir'", "machine='$machine'",
        "there='@names'");
    if (system('gnuplot', '-e', join('; ', @definitions), $script) != 0) {
        warn "bench: no curves: gnuplot is missing or failed\n";
        return;
    }
    print "curves: $build/bench/{coll-tasks,coll-bytes,coll-roots}.{svg,png}\n";
}

1;
