# The suites between nodes: two tasks on pretended nodes, joined by the ofi device over the loopback
# interface, and tasks on hosts that are network namespaces joined by a bridge. Both measure messages
# and one-sided operations by the same tables; limit: the same libfabric provider by hand.
package Network;

use strict;
use warnings;
use Suites;

my @stale    = qw(ucx-tag-tcp ucx-am-tcp);
my @mpi_tcp  = qw(openmpi-tcp openmpi-ofi mpich-tcp);

# Where the two tasks are: word, before the names of suites and rows; where, for the heading;
# common, of each suite; peers, and those with one-sided operations.
my %nodes = (
    word => 'net', where => 'between nodes', peers => [@mpi_tcp, @stale],
    onesided => [qw(openmpi-tcp openmpi-tcp-pt2pt mpich-tcp)],
    common => { group => 'network', tasks => 2, pin => 1, pamirun => ['--nodes', 2],
        set => ['PAMI_NETWORK=ofi'] },
);
my %hosts = (
    word => 'hosts', where => 'between hosts (namespaces)',
    peers => ['openmpi', 'openmpi-ucx', 'openmpi-ofi', 'mpich', @stale],
    onesided => [qw(openmpi openmpi-pt2pt openmpi-ucx-pt2pt mpich)],
    common => { group => 'hosts-p2p', named => 1, tasks => 2, pin => 1, hosts => 2, seconds => 40 },
);

# $bound: how near to the limit it is to come.
sub row
{
    my ($word, $row, $limit, $bound) = @_;
    my $relation = $row->{better} eq 'less' ? '<=' : '>=';

    $row->{id}       = "$word $row->{id}";
    $row->{by_probe} = 0;
    $row->{limit}    = $limit;
    $row->{target}   = [['peer', $relation, 1], defined $bound ? ['limit', $relation, $bound] : ()];
    $row->{says}     = 'ahead' . (defined $bound ? ", $relation$bound limit" : '');
    return $row;
}

# ... between regions, which peers do not have.
sub region_row
{
    my ($word, $row, @more) = @_;

    row("$word region", $row, @more);
    @{ $row->{target} } = grep { $_->[0] ne 'peer' } @{ $row->{target} };
    $row->{says} =~ s/^ahead, //;
    return $row;
}

sub onesided
{
    my ($make, $word, $measure, $bytes, @bound) = @_;
    return $make->($word, Suites::onesided_row($measure, $bytes), ["$measure,$bytes"], @bound);
}

# Messages and one-sided operations between two tasks.
sub tables
{
    my ($place) = @_;
    my ($word, $where) = @{$place}{qw(word where)};
    my @fresh = (unfair => \@stale);
    my @both  = qw(put get);

    return ({
        %{ $place->{common} }, name => "$word-latency", peers => $place->{peers},
        what => "active message $where, half round trip, us; buffers rewritten",
        ours => ['am_latency', '--max', '1m'], mpi => ['mpi_latency', '--max', '1m'], ucx => 'latency',
        limit => ['limit_ofi', 'latency', '--max', '1m'],
        rows => [
            row($word, Suites::latency_row(8, ''), ['latency_ofi,8'], 1.15),
            map({ row($word, Suites::latency_row($_, '', @fresh), ["latency_ofi,$_"]) }
                4096, 65536, 1 << 20),
        ],
    }, {
        %{ $place->{common} }, name => "$word-bandwidth", peers => $place->{peers},
        what => "one way $where, GB/s; the sender rewrites its buffers",
        ours => ['am_bandwidth'], mpi => ['mpi_bandwidth'], ucx => 'bandwidth',
        limit => ['limit_ofi', 'bandwidth'],
        rows => [map { row($word, Suites::bandwidth_row($_, '', @fresh), ["bandwidth_ofi,$_"],
            $_ >= 1 << 20 ? 0.95 : undef) } 65536, 1 << 20, 4 << 20],
    }, {
        %{ $place->{common} }, name => "$word-rate", peers => $place->{peers},
        what => "8-byte messages $where to one receiver, million per second",
        ours => ['am_rate'], mpi => ['mpi_rate'], ucx => 'rate', limit => ['limit_ofi', 'rate'],
        rows => [row($word, { id => '1 sender', of => ['am_rate,1'], unit => 'M/s',
            better => 'more' }, ['rate_ofi,1'], 0.8)],
    }, {
        %{ $place->{common} }, name => "$word-rma", peers => $place->{onesided},
        what => "put and get $where, memory of the shared heap",
        ours => ['rma', '--step', '3', '--block-min', '64k'],
        mpi => ['mpi_rma', '--step', '3', '--block-min', '64k'],
        limit => ['limit_ofi', 'rma', '--step', '3'],
        rows => [
            (map { onesided(\&row, $word, "${_}_latency", 8) } @both),
            (map { my $bytes = $_; map { onesided(\&row, $word, "${_}_bandwidth", $bytes) } @both }
                32768, 2 << 20),
            row($word, Suites::onesided_row('fetch_add', 8), []),
        ],
    }, {
        %{ $place->{common} }, name => "$word-regions", peers => [],
        what => "put and get $where, memory regions",
        ours => ['rma', '--regions', '--step', '3'],
        limit => ['limit_ofi', 'rma', '--step', '3'],
        rows => [
            (map { onesided(\&region_row, $word, "${_}_latency", 8, 1.15) } @both),
            (map { my $bytes = $_;
                map { onesided(\&region_row, $word, "${_}_bandwidth", $bytes, 0.95) } @both }
                262144, 2 << 20),
        ],
    });
}

my @idle = ({
    name => 'net-idle', group => 'network', tasks => 3, pin => 1, peers => ['ours-alone'],
    what => 'two tasks on one node, a sleeping third on another; ours-alone: no network device',
    pamirun => ['--nodes', 2], set => ['PAMI_YIELD=never'],
    settings => { ours => ['PAMI_NETWORK=ofi'], 'ours-alone' => ['PAMI_NETWORK=shm'] },
    ours => ['am_latency', '--max', 8],
    rows => [{ id => 'shm 8 B beside an idle network', of => ['am_latency,8'], unit => 'us',
        better => 'less', by_probe => 1, target => [['peer', '<=', 1.03]], says => '<=1.03 peer' }],
});

my @collectives = ({
    %{ $nodes{common} }, name => 'net-coll', peers => \@mpi_tcp,
    what => 'collectives of two tasks on two nodes, from the last start to the last end, us',
    ours => ['coll', qw(barrier broadcast allreduce)],
    mpi => ['mpi_coll', qw(barrier broadcast allreduce)],
    rows => [
        row('net', Suites::coll_row('barrier', 8)),
        map({ my $bytes = $_; map { row('net', Suites::coll_row($_, $bytes)) }
            qw(broadcast allreduce) } 8, 65536, 1 << 20),
    ],
});

# Shared memory inside hosts, a network between.
my @over_hosts = map {
    my ($hosts, $tasks) = @$_;
    {
        name => "hosts-$hosts-$tasks", group => 'hosts', hosts => $hosts, tasks => $tasks, pin => 0,
        seconds => 40,
        # MPICH's tasks never yield. Where it has more of them than processors a turn of 8 bytes
        # takes it 24 to 48 ms, and it does not get through MPI_Finalize, unless it is made to.
        peers => ['openmpi', 'openmpi-han', 'openmpi-ucx', $tasks > 2 ? 'mpich-yield' : 'mpich'],
        what => "$tasks tasks on $hosts hosts (namespaces), collectives one after the other, us per turn",
        ours => ['coll', qw(barrier broadcast allreduce --loop)],
        mpi => ['mpi_coll', qw(barrier broadcast allreduce --loop)],
        rows => [
            Suites::coll_row('barrier', 8, by_probe => 0),
            map({ my $bytes = $_; map { Suites::coll_row($_, $bytes, by_probe => 0) }
                qw(broadcast allreduce) } 8, 65536, 1 << 20),
        ],
    }
} ([2, 2], [2, 8]);

our @suites = (@idle, tables(\%nodes), @collectives, @over_hosts, tables(\%hosts));

%Suites::about_contender = (
    %Suites::about_contender,
    'openmpi-pt2pt'     => 'Open MPI, windows by messages of ob1 over TCP (else by UCX)',
    'openmpi-tcp-pt2pt' => 'the same over loopback',
    'openmpi-ucx-pt2pt' => 'the same, messages over UCX',
    'openmpi-han' => 'Open MPI, blocking, coll/han: by hosts',
);

1;
