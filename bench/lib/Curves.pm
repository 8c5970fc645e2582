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

# Open MPI's non-blocking collectives, and blocking ones of each component that takes part on one
# node (han does not; sm spins before it yields, 0.1 ms a turn of 8 tasks and 5 ms of 32); MPICH,
# which takes part with more tasks than processors when it is made to yield. One that hangs, in
# MPI_Finalize mostly, is given up after this time.
my $seconds = 30;

sub peers
{
    my ($tasks) = @_;
    return qw(openmpi openmpi-blocking openmpi-tuned), $tasks > 8 ? () : 'openmpi-sm',
        qw(openmpi-adapt openmpi-ucx-blocking openmpi-ucx-tuned), $tasks > 2 ? 'mpich-yield-blocking' : 'mpich-blocking';
}

sub row
{
    my ($measure, $bytes, $what, @more) = @_;
    return {
        id => $what, of => ["$measure,$bytes"], unit => 'us', better => 'less',
        target => [['peer', '<=', 1]], says => 'ahead', unfair => [qw(ours-one ours-two)], @more,
    };
}

my @by_tasks = map {
    my $tasks = $_;
    my @size  = $tasks > 8 ? ('--max', '64k') : ();
    my @ours  = ('ours-one', 'ours-two', 'ours-messages', $tasks > 2 ? 'ours-nodes' : ());
    {
        name => "coll-curves-$tasks", group => 'coll-curves', tasks => $tasks, pin => 0, named => 1,
        peers => [@ours, peers($tasks)], seconds => $seconds,
        what => "$tasks tasks: shared memory, also of one and two buffers, messages, two pretended nodes; "
            . 'us per turn',
        ours => ['coll', qw(barrier broadcast allreduce --loop), @size],
        mpi => ['mpi_coll', qw(barrier broadcast allreduce --loop), @size],
        settings => { 'ours-messages' => \@messages, %buffers },
        options => { 'ours-nodes' => ['--nodes', 2] },
        limit => ['limit_barrier', '--tasks', $tasks, '--loop'],
        rows => [
            row('barrier', 8, 'barrier', limit => ["barrier_central,$tasks"], unfair => \@ours),
            map({ my $bytes = $_;
                map { row($_, $bytes, "$_ " . Suites::size($bytes), unfair => \@ours) }
                    qw(broadcast allreduce) } 8, 4096, 65536, $tasks > 8 ? () : 1 << 20),
        ],
    }
} @counts;

my @roots = map {
    my $tasks = $_;
    map {
        my ($name, $words, @fixed) = @$_;
        my @what = (qw(broadcast --loop --free --max 8), @fixed);
        {
            name => "coll-$name-$tasks", group => 'coll-roots', tasks => $tasks, pin => 0, named => 1,
            peers => [qw(ours-one ours-two), peers($tasks)], seconds => $seconds,
            what => "$tasks tasks: broadcasts of 8 bytes without barriers, $words; us",
            settings => \%buffers,
            ours => ['coll', @what], mpi => ['mpi_coll', @what],
            rows => [row('broadcast', 8, 'broadcast 8 B')],
        }
    } ['roots', 'rotating roots'], ['fixed', 'always the same root', '--fixed']
} @counts;

our @suites = (@by_tasks, @roots);

%Suites::about_contender = (
    %Suites::about_contender,
    'ours-one' => 'libpami, shared memory, one buffer',
    'ours-two' => 'libpami, shared memory, two buffers in turn',
    'ours-messages' => 'libpami, algorithms over messages',
    'ours-nodes'    => 'libpami, the tasks on two pretended nodes',
    'openmpi-tuned' => 'Open MPI, blocking, coll/tuned by the rules in peer/tuned.rules',
    'openmpi-sm'    => 'Open MPI, blocking, coll/sm: shared memory',
    'openmpi-adapt' => 'Open MPI, blocking, coll/adapt: broadcasts by events',
    'openmpi-ucx-blocking' => 'Open MPI over UCX, blocking',
    'openmpi-ucx-tuned'    => 'Open MPI over UCX, blocking, coll/tuned by rules',
    'mpich-yield-blocking' => 'MPICH, blocking, made to yield after each look in vain',
);

# ---- pictures ----

# Lines "x median min max" of a file for each curve; the names of those that are there.
sub write_curves
{
    my ($dir, $curves) = @_;

    for my $name (sort keys %$curves) {
        open my $f, '>', "$dir/$name.dat" or do { warn "bench: $dir/$name.dat: $!\n"; next };
        my $points = $curves->{$name};
        print $f "$_ @{ $points->{$_} }{qw(median min max)}\n" for sort { $a <=> $b } keys %$points;
        close $f;
    }
    return sort keys %$curves;
}

# The lines that a contender's measures belong to: Open MPI has one for the best of all that it has.
sub lines_of
{
    my ($contender) = @_;
    return ('mpich') if $contender =~ /^mpich/;
    return ('openmpi', 'openmpi-best') if $contender eq 'openmpi';
    return $contender =~ /^openmpi/ ? ('openmpi-best') : ($contender);
}

# Adds a point to a line, or replaces a worse one there.
sub add_point
{
    my ($curves, $name, $x, $m) = @_;
    my $point = $curves->{$name}{$x};
    $curves->{$name}{$x} = $m if !$point || $m->{median} < $point->{median};
}

sub draw
{
    my ($measures, $build, $script, $machine) = @_;
    my $dir = "$build/bench/plots";
    my %curves;

    for my $m (@$measures) {
        next if $m->{suite} !~ /^coll-(curves|roots|fixed)-(\d+)$/;
        my ($picture, $tasks) = ($1, $2);
        my $measure = $m->{measure} eq 'barrier_central' ? 'barrier' : $m->{measure};
        my $limit   = $m->{contender} eq 'limit';
        next if $limit && $measure ne 'barrier';
        for my $who (lines_of($m->{contender})) {
            my $line = $picture eq 'fixed' ? "roots-$measure-fixed-$who" : "$picture-$measure-$who";
            add_point(\%curves, $line, $tasks, $m)
                if $picture ne 'curves' || $m->{parameter} == 8 || $limit;
            add_point(\%curves, "bytes-$measure-$tasks-$who", $m->{parameter}, $m)
                if $picture eq 'curves' && $measure ne 'barrier' && $m->{parameter} >= 4096
                && $who =~ /^(?:ours|openmpi-best)$/;
        }
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
