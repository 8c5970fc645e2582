# Runs contenders, each bracketed by two probes of the machine, and keeps what they print.
#
# A run counts when the two-line cache ping-pong just before it and just after it agree within
# AGREE, both were undisturbed, and nobody else used more than OTHERS of the processors meanwhile;
# otherwise it is repeated, a limited number of times. Rounds are interleaved: every contender of a suite once, in an order
# that rotates, then again.
package Measure;

use strict;
use warnings;
use Launch;
use POSIX ();
use Time::HiRes qw(time);

use constant AGREE => 0.15;
use constant HERTZ => POSIX::sysconf(POSIX::_SC_CLK_TCK()) || 100;
use constant { OTHERS => 0.05, OTHERS_LEAST => 0.02 };    # share of all processors; seconds
use constant FAILURES => 2;                               # of a peer, then it is left out
use constant TIME_LIMIT => 'time limit';
use constant { KILL_AFTER => 3, END_AFTER => 6 };         # s after the time limit
use constant PR_SET_CHILD_SUBREAPER => 36;
use constant DISTURBED => 20;                             # percent of a probe's batches

# Fields: source, build, cpus (two numbers or none), rounds, tries (per contender and round), quick.
sub new
{
    my ($class, %options) = @_;
    adopt_orphans();
    return bless { tries => 4, status => {}, thrown => 0, %options }, $class;
}

# Children of launchers that end first become this process's, so that it is told what they used.
sub adopt_orphans
{
    my %prctl = (x86_64 => 157, aarch64 => 167);
    my $number = $prctl{ (POSIX::uname())[4] };
    syscall $number, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0 if $number;
}

# Ends whatever this process has started and what that has: none of it may hold up, or disturb, what
# comes next. Daemons of launchers leave their sessions and so escape the end of a run.
sub end_descendants
{
    my %parent;
    for my $file (glob '/proc/[0-9]*/stat') {
        open my $f, '<', $file or next;
        my $line = <$f> // '';
        $parent{$1} = $2 if $line =~ /^(\d+) \(.*\) \S (\d+)/s;
    }
    for my $pid (keys %parent) {
        my $above = $pid;
        $above = $parent{$above} while defined $above && $above != $$;
        kill 'KILL', $pid if defined $above && $pid != $$;
    }
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
        { exec 'timeout', '-k', KILL_AFTER, $seconds, @$command }
        POSIX::_exit(127);
    }
    local $SIG{ALRM} = sub { end_descendants(); alarm 1 };
    alarm $seconds + END_AFTER;
    my @lines = <$out>;
    close $out;
    alarm 0;
    my $status = $? >> 8 || $? & 127;
    end_descendants();
    1 while waitpid(-1, POSIX::WNOHANG()) > 0;
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
    $last = TIME_LIMIT if $status == 124 || $status == 137 || $ms > ($seconds + END_AFTER) * 1000;
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

# Seconds that one run may take.
sub limit_of
{
    my ($self, $suite) = @_;
    my $own = $suite->{seconds};
    return defined $own && $own < $self->{seconds} ? $own : $self->{seconds};
}

# One run of one contender: { values => {"name,param" => [number, unit]}, probe, noisy }; with
# failed => reason when it could not run or failed (bad). What a program has printed that then took
# too long holds: each line is a complete measure.
sub run_once
{
    my ($self, $suite, $contender) = @_;
    my ($command, $why) = Launch::command($self, $suite, $contender);
    return { failed => $why } if !$command;

    local %ENV = %ENV;
    delete $ENV{BENCH_PIN};
    $ENV{BENCH_PIN} = join ',', @{ $self->{cpus} } if $suite->{pin};
    $ENV{UCX_TLS} = $contender =~ /-tcp$/ ? 'tcp,self' : 'posix,sysv,cma,self';
    $ENV{UCX_NET_DEVICES} = 'lo' if $contender =~ /-tcp$/;
    $ENV{UCX_LOG_LEVEL} = 'error';

    my ($busy, $own, $start) = (busy_seconds(), own_seconds(), time);
    my ($before, $shaky) = $self->probe($suite);
    my ($status, $lines, $error, $ms) = $self->execute($command, $self->limit_of($suite));
    my ($after, $shaken) = $self->probe($suite);
    my $others = (busy_seconds() - $busy) - (own_seconds() - $own);
    my $whole  = (time - $start) * ($self->{processors} || 1);

    if ($status == 77) {
        my ($reason) = map { /^SKIP: (.*)/ ? $1 : () } @$lines;
        return { failed => $reason // 'skipped' };
    }
    my %run = (values => {}, noisy => $others > OTHERS_LEAST && $others > OTHERS * $whole);
    @run{qw(failed bad)} = ('FAILED: ' . ($error ne '' ? $error : "status $status"), 1)
        if $status != 0;
    for ($status == 0 || $error eq TIME_LIMIT ? @$lines : ()) {
        $run{values}{"$1,$2"} = [$4, $3] if /^(\w+),(\d+),([\w\/%]+),([-+.\deinfa]+)$/;
    }
    for my $name (keys %{ $suite->{read} // {} }) {
        my ($pattern, $unit) = @{ $suite->{read}{$name} };
        $run{values}{$name} = [$1, $unit] if join('', @$lines) =~ $pattern;
    }
    $run{values}{ $suite->{timed} } = [$ms, 'ms']
        if $suite->{timed} && $contender ne 'limit' && $status == 0;
    if (defined $before && defined $after) {
        my ($low, $high) = sort { $a <=> $b } $before, $after;
        $run{probe} = ($before + $after) / 2;
        $run{noisy} ||= $high > $low * (1 + AGREE) || $shaky || $shaken;
    }
    return \%run;
}

# All rounds of a suite: { contender => { runs => [one per round or undef], failed => reason,
# failures => how many runs } }. A peer that fails once may go on.
sub suite
{
    my ($self, $suite) = @_;
    my @contenders = ('ours', @{ $suite->{peers} }, $suite->{limit} ? 'limit' : ());
    my %result = map { $_ => { runs => [], failures => 0 } } @contenders;

    for my $round (0 .. $self->{rounds} - 1) {
        for my $i (0 .. $#contenders) {
            my $contender = $contenders[($i + $round) % @contenders];
            my $entry     = $result{$contender};
            next if $entry->{failures} >= ($contender eq 'ours' ? 1 : FAILURES);
            $self->progress($suite, $round, $contender, $i);
            $self->round($suite, $contender, $entry, $round);
        }
    }
    $self->progress;
    return \%result;
}

# A contender's run of a round, repeated until one counts.
sub round
{
    my ($self, $suite, $contender, $entry, $round) = @_;

    for my $try (1 .. $self->{tries}) {
        my $run = $self->run_once($suite, $contender);
        my $counts = !$run->{noisy} || $self->{quick} || $suite->{timeless};
        if ($run->{failed}) {
            @{$entry}{qw(failed bad)} = @{$run}{qw(failed bad)};
            $entry->{failures} += $run->{bad} ? 1 : FAILURES;
        }
        if ($counts && (!$run->{failed} || %{ $run->{values} // {} })) {
            $entry->{runs}[$round] = $run;
            return;
        }
        return if $run->{failed};
        $entry->{thrown}++;
        $self->{thrown}++;
    }
}

# What is being measured: a status line on a terminal, else a line for each round.
sub progress
{
    my ($self, $suite, $round, $contender, $place) = @_;
    my $text = $suite ? "$suite->{name}: round " . ($round + 1) . " of $self->{rounds}" : '';

    if (-t STDERR) {
        printf STDERR "\r\e[K%s", $suite ? "$text: $contender" : '';
    } elsif ($suite && $place == 0) {
        print STDERR "$text\n";
    }
}

1;
