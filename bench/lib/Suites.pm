# What bench/run measures: suites of programs that run interleaved, the rows of the table that are
# read off them, and the contenders. Only data; how it is run is in Measure.pm, how it is judged and
# printed in Report.pm.
#
# A suite:
#   name, group   group is what the command line names; suites of one group share a table
#   named         only measured when it is named
#   tasks, pin    processes of the job; pin: one on each of the two cores, else the system places them
#   ours          program under the build directory's bench/, and its arguments
#   pamirun       further options of pamirun;   set: settings of ours, NAME=VALUE
#   hosts         so many network namespaces pose as hosts (over_hosts); no options of pamirun then
#   flat          settings of the contender "ours-flat"
#   mpi           the same for the MPI peers;   ucx: test that peer/ucx is asked for
#   limit         program and arguments that measure the machine's limit for these rows
#   peers         which peers take part
#   seconds       time limit of a run, when it is less than that of all
#   timeless      noise does not matter, as no time is measured
#   settings      NAME=VALUE of contenders of ours; options: of pamirun, of contenders of ours
#   variants      contenders of ours with other arguments: name => [...], as in ours
#   read          "name,param" => [pattern, unit]: a measure in the text of a program that prints
#                 none as the others do; $1 is the value
#   timed         name of the measure, when what counts is how long the whole command takes (ms)
#   rows          below
# A row:
#   id, what      short name and sentence
#   of            measure "name,param" as the programs print it; two of them: their ratio
#   unit, better  "less" or "more"
#   limit         "probe" (the two-line ping-pong around the same run) or measures of the suite's
#                 limit program, of which the best counts
#   by_probe      divide by the probe before runs are compared: for latencies
#   unfair        peers whose run differs from ours in a way that favours them: shown, not the best
#   target        [[against, relation, number], ...], against: limit, peer, probe, value;
#   says          the target in words
package Suites;

use strict;
use warnings;

my @mpi        = qw(openmpi openmpi-ucx mpich);
my @ucx        = qw(ucx-tag ucx-am uct);
my @all        = (@mpi, @ucx);
my @free       = qw(openmpi);
my @not_fresh  = qw(ucx-tag ucx-am uct);

our %about_contender = (
    ours          => 'libpami',
    openmpi       => 'Open MPI, ob1 over vader (yielding when oversubscribed)',
    'openmpi-ucx' => 'Open MPI over UCX shared memory',
    mpich         => 'MPICH',
    'ucx-tag'     => 'ucx_perftest, tagged messages; buffers not rewritten',
    'ucx-am'      => 'ucx_perftest, active messages; buffers not rewritten, data not copied out',
    uct           => 'ucx_perftest, transport layer (posix); one packet, data not copied out',
    'ours-flat'   => 'libpami, algorithms over messages that know of no nodes',
    'ours-slabs'  => 'libpami, transposes in slabs, polling between lines',
    'ours-overlap' => 'libpami, inner points while the layers around are on their way',
    'ours-thread' => 'libpami, the same with a thread of asynchronous progress instead of polls',
    'mpich-thread' => 'MPICH, MPI_THREAD_MULTIPLE and its thread for asynchronous progress',
    'openmpi-thread' => 'Open MPI, MPI_THREAD_MULTIPLE and a thread of the program that probes',
    'openmpi-overlap' => 'Open MPI, inner points while the layers around are on their way,'
        . ' tests between planes',
    'mpich-overlap' => 'MPICH, the same',
    'openmpi-blocking' => 'the same, blocking collectives, which promise less',
    'mpich-blocking'   => 'MPICH, blocking collectives',
    'openmpi-tcp' => 'Open MPI, ob1 over its own use of TCP',
    'openmpi-ofi' => 'Open MPI over libfabric (tcp;ofi_rxm)',
    'mpich-yield' => 'MPICH, made to yield after each look in vain, which it never does by itself',
    'mpich-tcp'   => 'MPICH over UCX and TCP (Debian builds it without libfabric)',
    'ucx-tag-tcp' => 'ucx_perftest over TCP, tagged messages; buffers not rewritten',
    'ucx-am-tcp'  => 'ucx_perftest over TCP, active messages; neither rewritten nor copied out',
    'ucx-rma'     => 'ucx_perftest, one-sided operations on memory of its own; always the same place',
);

sub size
{
    my ($bytes) = @_;
    return $bytes >= 1 << 20 ? ($bytes >> 20) . ' MiB'
        : $bytes >= 1024     ? ($bytes >> 10) . ' KiB'
        :                      "$bytes B";
}

sub latency_row
{
    my ($bytes, $kind, @more) = @_;
    my $name = $kind eq 'header' ? 'am_latency_header' : 'am_latency';
    my %row = (
        id       => ($kind ? "$kind " : '') . size($bytes),
        of       => ["$name,$bytes"],
        unit     => 'us',
        better   => 'less',
        by_probe => 1,
        limit    => ["latency_copy,$bytes", "latency_cma,$bytes"],
        target   => [['peer', '<=', 1]],
        says     => 'ahead',
        @more,
    );
    return \%row;
}

sub bandwidth_row
{
    my ($bytes, $kind, @more) = @_;
    my $way = $kind eq 'both ways' ? 'bidirectional' : 'bandwidth';
    my %row = (
        id     => ($kind ? "$kind " : '') . size($bytes),
        of     => ["am_$way,$bytes"],
        unit   => 'GB/s',
        better => 'more',
        limit  => ["${way}_copy,$bytes", "${way}_cma,$bytes"],
        unfair => $kind eq 'same data' ? [] : \@not_fresh,
        target => [['peer', '>=', 1], $bytes >= 1 << 20 ? ['limit', '>=', 0.9] : ()],
        says   => $bytes >= 1 << 20 ? 'ahead, >=0.9 limit' : 'ahead',
        @more,
    );
    return \%row;
}

my @latency = ({
    name => 'latency', group => 'latency', tasks => 2, pin => 1, peers => \@all,
    what => 'active message, half round trip, us; buffers rewritten',
    ours => ['am_latency'], mpi => ['mpi_latency'], ucx => 'latency',
    limit => ['limit_copy', 'latency'],
    rows => [
        latency_row(8, '', limit => 'probe', target => [['probe', '<=', 0.9]],
            says => '<=0.9 limit'),
        latency_row(512, '', unfair => ['ucx-am', 'uct']),
        latency_row(4096, '', unfair => \@not_fresh),
        latency_row(65536, '', unfair => \@not_fresh),
        latency_row(1 << 20, '', unfair => \@not_fresh),
        latency_row(4 << 20, '', unfair => \@not_fresh),
    ],
}, {
    name => 'header', group => 'latency', tasks => 2, pin => 1, peers => [],
    what => 'with 16 bytes of user header',
    ours => ['am_latency', '--header', '16', '--max', '512', '--step', '3'],
    rows => [
        latency_row(8, 'header', limit => 'probe', target => [], says => ''),
        latency_row(512, 'header', limit => 'probe', target => [], says => ''),
    ],
}, {
    name => 'latency-keep', group => 'latency', tasks => 2, pin => 1, peers => \@all,
    what => 'the same data sent again and again (the way of ucx_perftest)',
    ours => ['am_latency', '--keep', '--min', '4k', '--step', '2'],
    mpi => ['mpi_latency', '--keep', '--min', '4k', '--step', '2'], ucx => 'latency',
    limit => ['limit_copy', 'latency', '--keep', '--min', '4k', '--step', '2'],
    rows => [
        latency_row(4096, 'same data', unfair => ['ucx-am', 'uct'],
            says => 'ahead (there 0.33 us)'),
        latency_row(65536, 'same data', unfair => ['ucx-am'], says => 'ahead (there 3.2 us)'),
        latency_row(1 << 20, 'same data', unfair => ['ucx-am'], says => 'ahead (there 50 us)'),
    ],
});

my @bandwidth = ({
    name => 'bandwidth', group => 'bandwidth', tasks => 2, pin => 1, peers => \@all,
    what => 'one way, GB/s; the sender rewrites its buffers',
    ours => ['am_bandwidth'], mpi => ['mpi_bandwidth'], ucx => 'bandwidth',
    limit => ['limit_copy', 'bandwidth', '--one'],
    rows => [map { bandwidth_row($_, '') } 4096, 65536, 1 << 20, 4 << 20],
}, {
    name => 'bidirectional', group => 'bandwidth', tasks => 2, pin => 1, peers => \@mpi,
    what => 'both ways at once, sum, GB/s; the senders rewrite their buffers',
    ours => ['am_bandwidth', '--both'], mpi => ['mpi_bandwidth', '--both'],
    limit => ['limit_copy', 'bandwidth', '--both'],
    rows => [map { bandwidth_row($_, 'both ways') } 65536, 1 << 20, 4 << 20],
}, {
    name => 'bandwidth-keep', group => 'bandwidth', tasks => 2, pin => 1, peers => \@all,
    what => 'one way, the same data sent again and again (the way of ucx_perftest)',
    ours => ['am_bandwidth', '--keep', '--min', '64k'],
    mpi => ['mpi_bandwidth', '--keep', '--min', '64k'], ucx => 'bandwidth',
    limit => ['limit_copy', 'bandwidth', '--one', '--keep', '--min', '64k'],
    rows => [map { bandwidth_row($_, 'same data', unfair => ['ucx-am', 'uct']) }
        65536, 1 << 20, 4 << 20],
});

my @rate = ({
    name => 'rate', group => 'rate', tasks => 2, pin => 1, peers => \@all,
    what => '8-byte messages to one receiver, million per second',
    ours => ['am_rate'], mpi => ['mpi_rate'], ucx => 'rate', limit => ['limit', 'ring'],
    rows => [{
        id => '1 sender', of => ['am_rate,1'], unit => 'M/s', better => 'more',
        limit => ['ring,8'], unfair => [],
        target => [['limit', '>=', 30 / 108]], says => '>=0.28 limit (30 of 108)',
    }],
}, map {
    my $senders = $_;
    {
        name => "rate-$senders", group => 'rate', tasks => $senders + 1, pin => 0, peers => \@free,
        what => "$senders senders, processes outnumber cores",
        ours => ['am_rate'], mpi => ['mpi_rate'],
        rows => [{
            id => "$senders senders", of => ["am_rate,$senders"], unit => 'M/s', better => 'more',
            target => [['peer', '>=', 1]], says => 'ahead',
        }],
    }
} (2, 4));

my @rmw = ({
    name => 'rmw', group => 'rmw', tasks => 2, pin => 1, peers => [],
    what => 'fetch-and-add of 8 bytes in shared memory of another task, callback included',
    ours => ['rmw'], limit => ['limit', 'atomic'],
    rows => [
        { id => 'hot', of => ['rmw_hot,8'], unit => 'ns', better => 'less',
            limit => ['atomic_hot,8'], target => [['value', '<=', 15]], says => '<=15 ns' },
        { id => 'contended', of => ['rmw_contended,8'], unit => 'ns', better => 'less',
            limit => ['atomic_contended,8'], target => [], says => '' },
        { id => 'hot, inline', of => ['rmw_inline_hot,8'], unit => 'ns', better => 'less',
            limit => ['atomic_hot,8'], target => [['limit', '<=', 1.25]], says => '<=1.25 limit' },
        { id => 'one at a time', of => ['rmw_single_hot,8'], unit => 'ns', better => 'less',
            limit => ['atomic_hot,8'], target => [], says => '' },
        { id => 'not shared', of => ['rmw_packets,8'], unit => 'ns', better => 'less',
            target => [], says => '' },
    ],
});

my @post = ({
    name => 'post', group => 'post', tasks => 1, pin => 1, peers => [],
    what => 'PAMI_Context_post from P threads to the advancing thread',
    ours => ['post_rate'], limit => ['limit', 'atomic'],
    rows => [
        { id => 'latency', of => ['post_latency,1'], unit => 'us', better => 'less', by_probe => 1,
            limit => 'probe', target => [], says => '' },
        map({ { id => "$_ producer" . ($_ > 1 ? 's' : ''), of => ["post_rate,$_"], unit => 'M/s',
                better => 'more', target => [], says => '' } } 1, 2, 4),
    ],
});

my @threads = ({
    name => 'threads-self', group => 'threads', tasks => 1, pin => 1,
    peers => ['openmpi', 'mpich'],
    what => 'one process, each thread through its own context to itself, 8-byte messages',
    ours => ['multi_context'], mpi => ['mpi_threads'],
    rows => [
        { id => '2 threads', of => ['context_self,2'], unit => 'M/s', better => 'more',
            target => [['peer', '>=', 1]], says => 'ahead' },
        { id => '2 over 1', of => ['context_gain,2'], unit => 'x', better => 'more',
            target => [['value', '>=', 1.8]], says => '>=1.8' },
        { id => 'limit of that', of => ['limit_gain,2'], unit => 'x', better => 'more',
            target => [], says => '' },
    ],
}, {
    name => 'threads-pair', group => 'threads', tasks => 2, pin => 1,
    peers => ['openmpi', 'mpich'],
    what => 'two processes of two threads on two cores',
    ours => ['multi_context'], mpi => ['mpi_threads'],
    rows => [
        { id => 'pair 2 threads', of => ['context_pair,2'], unit => 'M/s', better => 'more',
            target => [['peer', '>=', 1]], says => 'ahead' },
        { id => 'pair 2 over 1', of => ['context_pair,2', 'context_pair,1'], unit => 'x',
            better => 'more', target => [['value', '>=', 0.8]], says => 'no collapse: >=0.8' },
    ],
});

my @token = map {
    my $tasks = $_;
    {
        name => "token-$tasks", group => 'token', tasks => $tasks, pin => 0, peers => \@free,
        what => 'a token passed round more tasks than cores, us per hop',
        ours => ['token'], mpi => ['mpi_token'], limit => ['limit', 'token', '--tasks', $tasks],
        rows => [{
            id => "$tasks tasks", of => ["token,$tasks"], unit => 'us', better => 'less',
            limit => ["token_ring,$tasks"], target => [['peer', '<=', 1]], says => 'ahead',
        }],
    }
} (4, 8, 16);

# Overlap. The measures of bench/overlaploop.h.
sub overlap_row
{
    my ($kind, $mode, $bytes, @more) = @_;
    my %row = (
        id     => "$kind " . size($bytes) . ", $mode",
        of     => ["overlap_${kind}_$mode,$bytes"],
        unit   => '%',
        better => 'more',
        target => [],
        says   => '',
        @more,
    );
    return \%row;
}

my @hidden_95 = (target => [['value', '>=', 95]], says => '>=95 %');

my @overlap = ({
    name => 'overlap', group => 'overlap', tasks => 2, pin => 1,
    peers => ['openmpi', 'mpich', 'mpich-thread'],
    what => 'part of a communication that is hidden behind computation, percent',
    ours => ['overlap'], mpi => ['mpi_overlap'],
    rows => [
        (map { overlap_row('message', 'thread', $_) } 0, 4096, 65536),
        overlap_row('message', 'thread', 1 << 20, @hidden_95),
        overlap_row('message', 'thread', 4 << 20),
        (map { overlap_row('message', $_, 1 << 20) } qw(none polls)),
        (map { overlap_row($_, 'thread', 1 << 20, @hidden_95) } qw(allreduce alltoall)),
        overlap_row('allreduce', 'polls', 1 << 20, target => [['value', '>=', 80]], says => '>=80 %'),
        overlap_row('alltoall', 'polls', 1 << 20),
        (map { overlap_row($_, 'none', 1 << 20) } qw(allreduce alltoall)),
        { id => 'idle thread costs', of => ['overlap_cost,1'], unit => '%', better => 'less',
            target => [['value', '<=', 3]], says => '<=3 %' },
    ],
});

my @applications = ((map {
    my $class = $_;
    my @with  = ('../examples/ft', $class, '--slabs', 4);
    {
        name => "ft-$class", group => 'applications', tasks => 2, pin => 1,
        peers => [qw(ours-slabs ours-thread openmpi openmpi-thread mpich mpich-thread)],
        what => "3-D Fourier transforms as NAS FT, class $class, seconds",
        ours => ['../examples/ft', $class], mpi => ['mpi_ft', $class],
        variants => { 'ours-slabs' => [@with, '--poll', 4], 'ours-thread' => [@with, '--thread', 1] },
        read => { 'ft,2' => [qr/iterations in ([\d.]+) s/, 's'] },
        rows => [{ id => "class $class", of => ['ft,2'], unit => 's', better => 'less',
            target => [['peer', '<=', 1]], says => 'ahead' }],
    }
} qw(S W)), {
    name => 'multigrid', group => 'applications', tasks => 2, pin => 1,
    peers => [qw(ours-overlap ours-thread), map { ($_, "$_-overlap", "$_-thread") } qw(openmpi mpich)],
    what => 'V-cycles on 64^3 points, seconds',
    ours => ['../examples/multigrid', '--size', 64], mpi => ['mpi_multigrid', '--size', 64],
    variants => {
        'ours-overlap' => ['../examples/multigrid', '--size', 64, '--overlap', 1],
        'ours-thread'  => ['../examples/multigrid', '--size', 64, '--overlap', 1, '--thread', 1],
    },
    read => { 'multigrid,2' => [qr/cycles in ([\d.]+) s/, 's'] },
    rows => [{ id => '8 cycles', of => ['multigrid,2'], unit => 's', better => 'less',
        target => [['peer', '<=', 1]], says => 'ahead' }],
});

my @job = ({
    name => 'startup', group => 'startup', tasks => 16, pin => 0, peers => ['openmpi', 'mpich'],
    what => 'start 16 tasks, meet, end; ms',
    ours => ['startup'], mpi => ['mpi_startup'], timed => 'startup,16', limit => ['limit', 'spawn'],
    rows => [{
        id => '16 tasks', of => ['startup,16'], unit => 'ms', better => 'less',
        limit => ['spawn,16'], target => [['peer', '<=', 1]], says => 'ahead',
    }],
}, {
    name => 'idle', group => 'idle', tasks => 2, pin => 1, peers => [],
    what => 'waiting in PAMIX_Context_wait',
    ours => ['idle_cpu'], limit => ['limit', 'futex'],
    rows => [
        { id => 'processor use', of => ['idle_cpu,2'], unit => '%', better => 'less',
            target => [['value', '<=', 1]], says => '<=1 %' },
        { id => 'wake round trip', of => ['idle_wake,2'], unit => 'us', better => 'less',
            limit => ['futex_other_core,2'], target => [], says => '' },
        { id => 'thread wakes', of => ['idle_help,2'], unit => 'us', better => 'less',
            limit => ['futex_other_core,2'], target => [['limit', '<=', 0.75]],
            says => '<=0.75 limit (1.5 of one wake)' },
        map({ { id => "thread, $_->[1]", of => ["idle_thread,$_->[0]"], unit => '%',
            better => 'less', target => [['value', '<=', 3]], says => '<=3 %' } }
            [0, 'program computes'], [1, 'program advances'], [2, 'with lock'],
            [3, 'program keeps lock']),
    ],
}, {
    name => 'memory', group => 'memory', tasks => 64, pin => 0, timeless => 1, peers => \@free,
    what => 'memory per task of 64 on one node, KiB; PSS shares out shared pages',
    ours => ['memory'], mpi => ['mpi_memory'],
    rows => [map({ {
        id => $_->[1], of => ["$_->[0],64"], unit => 'KiB', better => 'less',
        target => [['peer', '<=', 1]], says => 'ahead',
    } } ['pss_idle', 'PSS idle'], ['rss_idle', 'RSS idle'],
        ['pss_all_to_all', 'PSS after all-to-all'], ['rss_all_to_all', 'RSS after all-to-all'])],
});

# One-sided. The figures of bench/onesided.h; $what names the memory that is written to or read.
sub onesided_row
{
    my ($measure, $bytes, @more) = @_;
    my $slow = $measure =~ /latency|fetch_add$/;
    (my $words = $measure) =~ s/_latency//;
    $words =~ tr/_/ /;
    my %row = (
        id       => "$words " . size($bytes),
        of       => ["$measure,$bytes"],
        unit     => $slow ? 'us' : $measure =~ /rate/ ? 'M/s' : 'GB/s',
        better   => $slow ? 'less' : 'more',
        by_probe => 0,
        limit    => ["$measure,$bytes"],
        unfair   => $measure =~ /bandwidth/ ? ['ucx-rma'] : [],
        target   => [['peer', $slow ? '<=' : '>=', 1]],
        says     => 'ahead',
        @more,
    );
    return \%row;
}

my @near_limit = (target => [['peer', '>=', 1], ['limit', '>=', 0.95]],
    says => 'ahead, >=0.95 limit');

my @rma = ({
    name => 'rma', group => 'rma', tasks => 2, pin => 1, peers => ['openmpi', 'mpich', 'ucx-rma'],
    what => 'put and get, memory that the node shares (of the run-time: shared heap, windows)',
    ours => ['rma'], mpi => ['mpi_rma'], ucx => 'rma', limit => ['limit_rma'],
    rows => [
        (map { onesided_row("${_}_latency", 8, target => [['peer', '<=', 1], ['limit', '<=', 10]],
            says => 'ahead, <=10 limit (20 ns)') } qw(put get)),
        (map { onesided_row("${_}_latency", 4096) } qw(put get)),
        onesided_row('put_bandwidth', 8),
        (map { onesided_row($_, 65536, @near_limit) } qw(put_bandwidth get_bandwidth)),
        (map { onesided_row($_, 1 << 20, @near_limit) } qw(put_bandwidth get_bandwidth)),
        (map { onesided_row($_, 4 << 20, @near_limit) } qw(put_bandwidth get_bandwidth)),
        (map { onesided_row('put_strided', $_) } 8, 64, 512, 4096, 65536),
        onesided_row('fetch_add', 8, target => [['peer', '<=', 1], ['limit', '<=', 2.7]],
            says => 'ahead, <=2.7 limit (15 ns)'),
        onesided_row('fetch_add_rate', 8),
    ],
}, {
    name => 'rma-plain', group => 'rma', tasks => 2, pin => 1, peers => ['openmpi', 'mpich'],
    what => 'the same with ordinary memory that nobody has announced (MPI: a window made of it)',
    ours => ['rma', '--plain', '--block-min', '4k', '--step', '3'],
    mpi => ['mpi_rma', '--plain', '--block-min', '4k', '--step', '3'],
    limit => ['limit_rma', '--plain', '--block-min', '4k', '--step', '3'],
    rows => [
        map({ $_->{id} = "plain $_->{id}"; $_ }
            (map { onesided_row($_, 8) } qw(put_latency get_latency)),
            (map { onesided_row($_, 32768) } qw(put_bandwidth get_bandwidth)),
            (map { onesided_row($_, 2 << 20) } qw(put_bandwidth get_bandwidth)),
            (map { onesided_row('put_strided', $_) } 4096, 65536)),
    ],
});

# Collectives. The measures of bench/collloop.h; `limit`: bench/limit_barrier.c.
sub coll_row
{
    my ($measure, $bytes, @more) = @_;
    my %row = (
        id       => $measure . ($measure eq 'barrier' ? '' : ' ' . size($bytes)),
        of       => ["$measure,$bytes"],
        unit     => 'us',
        better   => 'less',
        by_probe => 1,
        target   => [['peer', '<=', 1]],
        says     => 'ahead',
        @more,
    );
    return \%row;
}

my @coll_types = qw(reduce gather scatter allgather alltoall scan reduce_scatter);
my @coll_peers = qw(openmpi openmpi-blocking mpich mpich-blocking);

# Targets in units of the probe are microseconds wanted where it was 0.148.
sub coll_short
{
    my ($measure, $us, $limit) = @_;
    return coll_row($measure, 8, limit => $limit,
        target => [['probe', '<=', $us / 0.148], ['peer', '<=', 1 / 1.35]],
        says => sprintf('<=%.2f probes, <=0.74 peer', $us / 0.148));
}

my @crowded = map {
    my $tasks = $_;
    my @much  = (target => [['peer', '<=', 0.5]], says => '<=0.5 peer');
    my @some  = (target => [['peer', '<=', 0.7]], says => '<=0.7 peer');
    my @central = (by_probe => 0, limit => ["barrier_central,$tasks"]);
    {
        name => "coll-crowded-$tasks", group => 'coll-crowded', tasks => $tasks, pin => 0,
        peers => ['openmpi', 'openmpi-blocking'],
        what => "$tasks tasks on the machine's processors, one after the other; us per turn",
        ours => ['coll', '--loop', $tasks > 8 ? ('--max', '64k') : ()],
        mpi => ['mpi_coll', '--loop', $tasks > 8 ? ('--max', '64k') : ()],
        limit => ['limit_barrier', '--tasks', $tasks, '--loop'],
        rows => [
            coll_row('barrier', 8, @central, target => [['limit', '<=', 1.25]],
                says => '<=1.25 limit'),
            coll_row('allreduce', 8, @central, target => [['limit', '<=', 1.5]],
                says => '<=1.5 limit'),
            coll_row('broadcast', 8, @central, @much, id => 'broadcast 8 B, barrier'),
            (map { coll_row($_, 8, @central, id => "$_ 8 B, barrier") } qw(reduce gather scatter scan)),
            (map { coll_row($_, 8, @central) } qw(allgather alltoall reduce_scatter)),
            (map { coll_row('allreduce', $_, by_probe => 0, @much) }
                65536, $tasks > 8 ? () : 1 << 20),
            (map { coll_row($_, 65536, by_probe => 0, @some) } qw(alltoall allgather)),
            coll_row('broadcast', 65536, by_probe => 0, id => 'broadcast 64 KiB, barrier'),
        ],
    }
} (4, 8, 16, 32);

my @nodes = map {
    my $tasks = $_;
    {
        name => "coll-nodes-$tasks", group => 'coll-nodes', tasks => $tasks, pin => 0,
        peers => ['ours-flat'], pamirun => ['--nodes', 2],
        what => "$tasks tasks on two pretended nodes: by nodes against flat, us per turn",
        ours => ['coll', 'barrier', 'broadcast', 'allreduce', '--loop', '--max', '64k'],
        flat => ['PAMI_COLL_BARRIER=Dissemination', 'PAMI_COLL_BROADCAST=Binomial',
            'PAMI_COLL_ALLREDUCE=RecursiveDoubling:0-16K,Rabenseifner'],
        rows => [
            coll_row('barrier', 8, by_probe => 0),
            map({ my $bytes = $_; map { coll_row($_, $bytes, by_probe => 0) }
                qw(broadcast allreduce) } 8, 65536),
        ],
    }
} (4, 8);

my @coll = ({
    name => 'coll', group => 'coll', tasks => 2, pin => 1, peers => \@coll_peers,
    what => 'collectives of two tasks, from the last start to the last end, us',
    ours => ['coll'], mpi => ['mpi_coll'], limit => ['limit_barrier'],
    rows => [
        coll_short('barrier', 0.22, ['barrier,2']),
        coll_short('allreduce', 0.28, 'probe'),
        coll_short('broadcast', 0.18, 'probe'),
        (map { coll_row($_, 8, limit => 'probe') } @coll_types),
        (map { coll_row($_, 4096) } 'broadcast', 'allreduce', @coll_types),
        (map { coll_row('broadcast', $_, limit => ["copy_cross,$_"],
            target => [['peer', '<=', 1], ['limit', '<=', 1.1]], says => 'ahead, <=1.1 limit') }
            65536, 1 << 20),
        (map { coll_row('allreduce', $_, target => [['peer', '<=', 0.6]], says => '<=0.6 peer') }
            65536, 1 << 20),
        map({ my $bytes = $_; map { coll_row($_, $bytes) } @coll_types } 65536, 1 << 20),
        (map { coll_row('stream', $_, id => 'allreduce ' . size($_) . ' back to back') }
            8, 65536),
        (map { coll_row('four', $_, id => 'allreduce ' . size($_) . ' four at once',
            unfair => ['openmpi-blocking', 'mpich-blocking']) } 8, 65536),
    ],
}, {
    name => 'coll-huge', group => 'coll', tasks => 2, pin => 1, peers => \@coll_peers,
    what => 'the same, 4 MiB',
    ours => ['coll', 'broadcast', 'allreduce', 'alltoall', '--min', '4m', '--max', '4m'],
    mpi => ['mpi_coll', 'broadcast', 'allreduce', 'alltoall', '--min', '4m', '--max', '4m'],
    rows => [map { coll_row($_, 4 << 20) } qw(broadcast allreduce alltoall)],
}, @crowded, @nodes);

our @suites = (@latency, @bandwidth, @rate, @rmw, @rma, @post, @threads, @overlap, @applications, @token,
    @coll, @job);

1;
