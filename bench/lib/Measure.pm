# Runs contenders, each bracketed by two probes of the machine, and keeps what they print.
#
# A run counts when the two-line cache ping-pong just before it and just after it agree within
# AGREE, both were undisturbed, and nobody else used more than OTHERS of the processors meanwhile;
# otherwise it is repeated, a limited number of times. Rounds are interleaved: every contender of a suite once, in an order
# that rotates, then again.
package Measure;

use strict;
use warnings;
use POSIX ();
use Time::HiRes qw(time);

use constant AGREE => 0.15;
use constant HERTZ => POSIX::sysconf(POSIX::_SC_CLK_TCK()) || 100;
use constant { OTHERS => 0.05, OTHERS_LEAST => 0.02 };    # share of all processors; seconds
use constant DISTURBED => 20;                             # percent of a probe's batches

# Fields: build, cpus (two numbers or none), rounds, tries (per contender and round), quick.
sub new
{
    my ($class, %options) = @_;
    my $self = bless { tries => 4, status => {}, thrown => 0, %options }, $class;
    $self->{mpirun} = {
        openmpi => find('mpirun.openmpi'),
        mpich   => find('mpirun.mpich') || find('mpiexec.hydra'),
    };
    return $self;
}

sub find
{
    my ($program) = @_;
    for my $dir (split /:/, $ENV{PATH}) {
        return "$dir/$program" if -x "$dir/$program";
    }
    return undef;
}

# The command of a contender in a suite, or undef and the reason why it cannot take part.
sub command
{
    my ($self, $suite, $contender) = @_;
    my ($build, $n) = ($self->{build}, $suite->{tasks});
    my $bench = "$build/bench";
    return $self->command_over_hosts($suite, $contender) if $suite->{hosts};

    if ($contender =~ /^ours/) {
        my ($program, @arguments) = @{ $suite->{variants}{$contender} // $suite->{ours} };
        return (undef, 'not built') if !-x "$bench/$program" || !-x "$build/bin/pamirun";
        my @set = (@{ $suite->{set} // [] }, @{ $suite->{settings}{$contender} // [] },
            $contender eq 'ours-flat' ? @{ $suite->{flat} } : ());
        return [@set ? ('env', @set) : (), "$build/bin/pamirun", '-n', $n,
            @{ $suite->{pamirun} // [] }, @{ $suite->{options}{$contender} // [] },
            "$bench/$program", @arguments];
    }
    if ($contender eq 'limit') {
        my ($program, @arguments) = @{ $suite->{limit} };
        return (undef, 'not built') if !-x "$bench/$program";
        return ["$bench/$program", @arguments];
    }
    if ($contender =~ /^(?:ucx-(tag|am|rma)(?:-tcp)?|(uct))$/) {
        return (undef, 'not installed') if !find('ucx_perftest');
        return (undef, 'no such test')  if !$suite->{ucx};
        return ["$self->{source}/peer/ucx", $suite->{ucx}, $1 // $2];
    }
    my $flavour = $contender =~ /^mpich/ ? 'mpich' : 'openmpi';
    my ($program, @arguments) = @{ $suite->{mpi} };
    push @arguments, '--blocking' if $contender =~ /-blocking$/;
    push @arguments, '--fixed' if $contender =~ /-fixed$/;
    push @arguments, '--thread' if $contender =~ /-thread$/;
    push @arguments, '--overlap' if $contender =~ /-overlap$/;
    my $mpirun = $self->{mpirun}{$flavour};
    return (undef, 'not installed') if !$mpirun;
    return (undef, 'not built')     if !-x "$bench/peer/$program.$flavour";
    my @launch = ($mpirun, '-n', $n);
    if ($flavour eq 'mpich') {
        push @launch, qw(-bind-to none);
        # As if each task were on a host of its own; what then carries it is UCX, see run_once.
        push @launch, qw(-genv MPIR_CVAR_NOLOCAL 1) if $contender =~ /-tcp$/;
    } else {
        # The programs pin themselves, as ours do, so that everybody runs in the same places.
        push @launch, qw(--allow-run-as-root --oversubscribe --bind-to none);
        push @launch, qw(--mca mpi_yield_when_idle 1) if !$suite->{pin};
        my %way = (
            'openmpi-ucx' =>
                [qw(--mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any)],
            'openmpi-tcp' => [qw(--mca pml ob1 --mca btl), "tcp,self",
                              qw(--mca btl_tcp_if_include lo --mca osc), '^sm'],
            'openmpi-ofi' => [qw(--mca pml cm --mca mtl ofi --mca btl self
                --mca mtl_ofi_provider_include tcp;ofi_rxm)],
        );
        push @launch, @{ $way{$contender} // [qw(--mca pml ob1 --mca btl), "vader,self"] };
    }
    unshift @launch, qw(env MPIR_CVAR_ASYNC_PROGRESS=1) if $contender eq 'mpich-thread';
    return [@launch, "$bench/peer/$program.$flavour", @arguments];
}

# The same over several hosts, by each one's own launcher.
sub command_over_hosts
{
    my ($self, $suite, $contender) = @_;
    my $bench = "$self->{build}/bench";
    my ($flavour) = $contender =~ /^(openmpi|mpich)/;
    my ($program, @arguments) = @{ $flavour ? $suite->{mpi} : $suite->{ours} };
    my $file = $flavour ? "$bench/peer/$program.$flavour" : "$bench/$program";
    # Not cma: over namespaces UCX hangs with it. MPICH shares memory by itself, within a host.
    my $ucx = $flavour && $flavour eq 'mpich' ? 'tcp,self' : 'tcp,posix,sysv,self';
    my @mpi = (qw(OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 OMPI_MCA_mpi_yield_when_idle=1
        OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_opal_common_ucx_tls=any
        OMPI_MCA_opal_common_ucx_devices=any UCX_NET_DEVICES=eth0),
        'OMPI_MCA_pml=' . ($contender eq 'openmpi-ucx' ? 'ucx' : 'ob1'),
        'OMPI_MCA_btl=vader,tcp,self', "UCX_TLS=$ucx",
        $contender eq 'mpich-yield' ? 'BENCH_YIELD=1' : ());
    my %launcher = (openmpi => 'openmpi', mpich => 'hydra');

    return (undef, 'not installed') if $flavour && !$self->{mpirun}{$flavour};
    return (undef, 'not built')     if !-x $file;
    return ['env', "BUILD=$self->{build}", "PAMIRUN=$self->{build}/bin/pamirun", @mpi,
        "$self->{source}/over_hosts", $suite->{hosts}, $flavour ? $launcher{$flavour} : 'pamirun',
        $suite->{tasks}, $file, @arguments];
}

# Runs a command with a time limit: (exit status, output lines, the last line of its errors, ms).
sub execute
{
    my ($self, $command, $seconds) = @_;
    my $errors = "$self->{build}/bench/errors";
    my $start  = time;
    my $pid    = open(my $out, '-|') // die "bench: fork: $!\n";

    if ($pid == 0) {
        open STDIN,  '<', '/dev/null';
        open STDERR, '>', $errors;
        { exec 'timeout', '-k', '3', $seconds, @$command }
        POSIX::_exit(127);
    }
    my @lines = <$out>;
    close $out;
    my $status = $? >> 8 || $? & 127;
    my $ms     = (time - $start) * 1000;
    my $last   = '';
    if (open my $f, '<', $errors) {
        my @text = grep { /\S/ } <$f>;
        ($last) = grep { /^bench:|rror/ } @text;
        $last //= @text ? $text[-1] : '';
        close $f;
    }
    unlink $errors;
    chomp $last;
    $last = 'time limit' if $status == 124 || $status == 137;
    return ($status, \@lines, $last, $ms);
}

# The two-line ping-pong: (half round trip in ns, was it disturbed); nothing on one processor.
sub probe
{
    my ($self, $suite) = @_;
    return if @{ $self->{cpus} } < 2 || $suite->{timeless};
    local $ENV{BENCH_PIN} = join ',', @{ $self->{cpus} };
    my ($status, $lines) =
        $self->execute(["$self->{build}/bench/limit", 'probe', '--ms', '20'], 20);
    my %value = map { /^(\w+),\d+,\w+,([\d.e+-]+)/ ? ($1 => $2) : () } @$lines;
    return if $status != 0;
    return ($value{pingpong_two_lines}, $value{pingpong_disturbed} > DISTURBED);
}

# Seconds that the machine's processors have worked, or were taken away by the host.
sub busy_seconds
{
    open my $f, '<', '/proc/stat' or return 0;
    my (undef, $user, $nice, $system, undef, undef, $irq, $softirq, $steal) = split ' ', <$f>;
    return ($user + $nice + $system + $irq + $softirq + ($steal // 0)) / HERTZ;
}

# Seconds that this process and everything it has started used.
sub own_seconds
{
    my ($user, $system, $user_children, $system_children) = times;
    return $user + $system + $user_children + $system_children;
}

# One run of one contender: { values => {"name,param" => [number, unit]}, probe, noisy } or
# { failed => reason }.
sub run_once
{
    my ($self, $suite, $contender) = @_;
    my ($command, $why) = $self->command($suite, $contender);
    return { failed => $why } if !$command;

    local %ENV = %ENV;
    delete $ENV{BENCH_PIN};
    $ENV{BENCH_PIN} = join ',', @{ $self->{cpus} } if $suite->{pin};
    $ENV{UCX_TLS} = $contender =~ /-tcp$/ ? 'tcp,self' : 'posix,sysv,cma,self';
    $ENV{UCX_NET_DEVICES} = 'lo' if $contender =~ /-tcp$/;
    $ENV{UCX_LOG_LEVEL} = 'error';

    my ($busy, $own, $start) = (busy_seconds(), own_seconds(), time);
    my ($before, $shaky) = $self->probe($suite);
    my ($status, $lines, $error, $ms) = $self->execute($command, $self->{seconds});
    my ($after, $shaken) = $self->probe($suite);
    my $others = (busy_seconds() - $busy) - (own_seconds() - $own);
    my $whole  = (time - $start) * ($self->{processors} || 1);

    if ($status == 77) {
        my ($reason) = map { /^SKIP: (.*)/ ? $1 : () } @$lines;
        return { failed => $reason // 'skipped' };
    }
    return { failed => 'FAILED: ' . ($error ne '' ? $error : "status $status"), bad => 1 }
        if $status != 0;
    my %run = (values => {}, noisy => $others > OTHERS_LEAST && $others > OTHERS * $whole);
    for (@$lines) {
        $run{values}{"$1,$2"} = [$4, $3] if /^(\w+),(\d+),([\w\/%]+),([-+.\deinfa]+)$/;
    }
    for my $name (keys %{ $suite->{read} // {} }) {
        my ($pattern, $unit) = @{ $suite->{read}{$name} };
        $run{values}{$name} = [$1, $unit] if join('', @$lines) =~ $pattern;
    }
    $run{values}{ $suite->{timed} } = [$ms, 'ms'] if $suite->{timed} && $contender ne 'limit';
    if (defined $before && defined $after) {
        my ($low, $high) = sort { $a <=> $b } $before, $after;
        $run{probe} = ($before + $after) / 2;
        $run{noisy} ||= $high > $low * (1 + AGREE) || $shaky || $shaken;
    }
    return \%run;
}

# All rounds of a suite: { contender => { runs => [one per round or undef], failed => reason } }.
sub suite
{
    my ($self, $suite) = @_;
    my @contenders = ('ours', @{ $suite->{peers} }, $suite->{limit} ? 'limit' : ());
    my %result = map { $_ => { runs => [] } } @contenders;

    for my $round (0 .. $self->{rounds} - 1) {
        for my $i (0 .. $#contenders) {
            my $contender = $contenders[($i + $round) % @contenders];
            my $entry     = $result{$contender};
            next if $entry->{failed};
            for my $try (1 .. $self->{tries}) {
                $self->progress("$suite->{name}: round " . ($round + 1) . ": $contender");
                my $run = $self->run_once($suite, $contender);
                if ($run->{failed}) {
                    $entry->{failed} = $run->{failed};
                    $entry->{bad}    = $run->{bad};
                    last;
                }
                if (!$run->{noisy} || $self->{quick} || $suite->{timeless}) {
                    $entry->{runs}[$round] = $run;
                    last;
                }
                $entry->{thrown}++;
                $self->{thrown}++;
            }
        }
    }
    $self->progress('');
    return \%result;
}

# A status line, on a terminal only.
sub progress
{
    my ($self, $text) = @_;
    return if !-t STDERR;
    printf STDERR "\r\e[K%s", $text;
}

1;
