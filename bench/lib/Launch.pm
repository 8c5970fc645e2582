# The command line of a contender in a suite.
#
# The first word of a contender's name says what it is: ours, limit, ucx, uct, openmpi, mpich. Each
# further word of an MPI's adds settings or arguments of its program: openmpi-sm-fixed.
package Launch;

use strict;
use warnings;

# Arguments of the programs. The components of collectives know of blocking ones only.
my %argument = (
    map({ ($_ => "--$_") } qw(blocking fixed thread overlap)),
    map({ ($_ => '--blocking') } qw(sm tuned adapt han)),
);

# Parameters of Open MPI. osc: of windows; the one for shared memory would bypass the network, and
# without it UCX's is taken.
my %openmpi = (
    ucx => { pml => 'ucx', opal_common_ucx_tls => 'any', opal_common_ucx_devices => 'any' },
    tcp => { btl => 'tcp,self', btl_tcp_if_include => 'lo', osc => '^sm' },
    ofi => { pml => 'cm', mtl => 'ofi', btl => 'self', mtl_ofi_provider_include => 'tcp;ofi_rxm' },
    pt2pt => { osc => 'pt2pt' },
    sm    => { coll_sm_priority => 100 },
    adapt => { coll_adapt_priority => 100 },
    han   => { coll_han_priority => 100 },
    tuned => { coll_tuned_use_dynamic_rules => 1 },
);

# What MPICH reads from the environment.
my %mpich = (
    # As if each task were on a host of its own; what then carries it is UCX.
    tcp    => ['MPIR_CVAR_NOLOCAL=1'],
    thread => ['MPIR_CVAR_ASYNC_PROGRESS=1'],
    yield  => ['BENCH_YIELD=1'],
);

sub find
{
    my ($program) = @_;
    for my $dir (split /:/, $ENV{PATH}) {
        return "$dir/$program" if -x "$dir/$program";
    }
    return undef;
}

my %mpirun = (
    openmpi => find('mpirun.openmpi'),
    mpich   => find('mpirun.mpich') || find('mpiexec.hydra'),
);

# The command, or undef and the reason why the contender cannot take part. $tools: source, build.
sub command
{
    my ($tools, $suite, $contender) = @_;
    my ($kind, @words) = split /-/, $contender;
    my $start = $kind eq 'ours' ? ours($tools, $suite, $contender)
        : $kind eq 'limit'      ? limit($tools, $suite)
        : $kind =~ /^uc[tx]$/   ? ucx($tools, $suite, $words[0] // $kind)
        :                         mpi($tools, $suite, $kind, @words);
    my ($why, $settings, $launcher, $local, @program) = @$start;

    return (undef, $why)        if $why;
    return (undef, 'not built') if !-x $program[0];
    return ['env', @$settings, @$local, @program] if !$suite->{hosts};
    return ['env', "BUILD=$tools->{build}", "PAMIRUN=$tools->{build}/bin/pamirun", @$settings,
        "$tools->{source}/over_hosts", $suite->{hosts}, $launcher, $suite->{tasks}, @program];
}

# Each of these: [a reason why not, settings, the launcher over hosts, the one on this host,
# program and arguments].

sub ours
{
    my ($tools, $suite, $contender) = @_;
    my ($program, @arguments) = @{ $suite->{variants}{$contender} // $suite->{ours} };
    my $pamirun = "$tools->{build}/bin/pamirun";

    return ['not built'] if !-x $pamirun;
    return [undef,
        [@{ $suite->{set} // [] }, @{ $suite->{settings}{$contender} // [] },
            $contender eq 'ours-flat' ? @{ $suite->{flat} } : ()],
        'pamirun',
        [$pamirun, '-n', $suite->{tasks}, @{ $suite->{pamirun} // [] },
            @{ $suite->{options}{$contender} // [] }],
        "$tools->{build}/bench/$program", @arguments];
}

sub limit
{
    my ($tools, $suite) = @_;
    my ($program, @arguments) = @{ $suite->{limit} };
    return [undef, [], 'apart', [], "$tools->{build}/bench/$program", @arguments];
}

sub ucx
{
    my ($tools, $suite, $layer) = @_;
    return ['not installed'] if !find('ucx_perftest');
    return ['no such test']  if !$suite->{ucx};
    return [undef, $suite->{hosts} ? ['UCX_TLS=tcp,self', 'UCX_NET_DEVICES=eth0'] : [], 'apart', [],
        "$tools->{source}/peer/ucx", $suite->{ucx}, $layer];
}

sub mpi
{
    my ($tools, $suite, $flavour, @words) = @_;
    my ($program, @arguments) = @{ $suite->{mpi} };
    my $is_mpich = $flavour eq 'mpich';
    my %more     = map { $argument{$_} ? ($argument{$_} => 1) : () } @words;
    my @launch   = ($mpirun{$flavour}, '-n', $suite->{tasks});
    # The programs pin themselves, as ours do, so that everybody runs in the same places.
    push @launch, $is_mpich ? qw(-bind-to none) : qw(--allow-run-as-root --oversubscribe --bind-to none);

    return ['not installed'] if !$mpirun{$flavour};
    return [undef,
        [$is_mpich ? map({ @{ $mpich{$_} // [] } } @words) : openmpi_settings($tools, $suite, @words),
            $suite->{hosts} ? ucx_over_hosts($is_mpich) : ()],
        $is_mpich ? 'hydra' : 'openmpi', \@launch,
        "$tools->{build}/bench/peer/$program.$flavour", @arguments, sort keys %more];
}

sub openmpi_settings
{
    my ($tools, $suite, @words) = @_;
    my %set = (pml => 'ob1', btl => 'vader,self', hwloc_base_binding_policy => 'none',
        $suite->{pin} ? () : (mpi_yield_when_idle => 1));

    # Daemons that are children of the run: what they use is not taken for somebody else's.
    @set{qw(btl btl_tcp_if_include osc orte_leave_session_attached)} =
        ('vader,tcp,self', '10.77.0.0/24', '^sm', 1) if $suite->{hosts};
    %set = (%set, map { %{ $openmpi{$_} // {} } } @words);
    $set{coll_tuned_dynamic_rules_filename} = "$tools->{source}/peer/tuned.rules"
        if $set{coll_tuned_use_dynamic_rules};
    return map { "OMPI_MCA_$_=$set{$_}" } sort keys %set;
}

# Not cma: over namespaces UCX hangs with it. MPICH shares memory by itself, within a host.
sub ucx_over_hosts
{
    my ($is_mpich) = @_;
    return ('UCX_TLS=' . ($is_mpich ? 'tcp,self' : 'tcp,posix,sysv,self'), 'UCX_NET_DEVICES=eth0',
        'FI_TCP_IFACE=eth0');
}

1;
