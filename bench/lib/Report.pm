# Judges rows, prints the table, writes the CSV files and draws the pictures.
#
# All statistics are over rounds. A ratio is formed within each round first, from runs that took
# place seconds apart, and its median is reported: the machine's slow changes of state then cancel.
# Latencies are divided by the probe of their own run before they are compared with other runs.
package Report;

use strict;
use warnings;
use Suites;

use constant COUNTS => 5;    # rounds that a verdict should rest on

sub new
{
    my ($class, %options) = @_;
    return bless { %options, rows => [], measures => [], verdicts => {} }, $class;
}

sub median
{
    my @sorted = sort { $a <=> $b } @_;
    my $half   = @sorted >> 1;
    return undef if !@sorted;
    return @sorted % 2 ? $sorted[$half] : ($sorted[$half - 1] + $sorted[$half]) / 2;
}

sub statistics
{
    my @sorted = sort { $a <=> $b } grep { defined } @_;
    return undef if !@sorted;
    return { median => median(@sorted), min => $sorted[0], max => $sorted[-1], n => 0 + @sorted };
}

# Three significant digits, no exponents.
sub number
{
    my ($x) = @_;
    return '-' if !defined $x;
    my $size = abs $x;
    return sprintf '%.0f', $x if $size >= 100 || $size == 0;
    return sprintf '%.1f', $x if $size >= 10;
    return sprintf '%.2f', $x if $size >= 1;
    return sprintf '%.3f', $x if $size >= 0.01;
    return sprintf '%.1e', $x;
}

# A row's value in one run: a measure, or the ratio of two.
sub value_of
{
    my ($run, $of) = @_;
    return undef if !$run;
    my @values = map { my $v = $run->{values}{$_}; $v ? $v->[0] : undef } @$of;
    return undef if grep { !defined } @values;
    return @values == 2 ? ($values[1] ? $values[0] / $values[1] : undef) : $values[0];
}

# The best of several limits in one run.
sub best_of
{
    my ($run, $names, $better) = @_;
    return undef if !$run;
    my @values = grep { defined } map { value_of($run, [$_]) } @$names;
    @values = sort { $a <=> $b } @values;
    return @values ? $values[$better eq 'less' ? 0 : -1] : undef;
}

# Values of all rounds: raw, and made comparable with other runs.
sub series
{
    my ($entry, $row, $rounds, $value) = @_;
    my (@raw, @fair);
    for my $r (0 .. $rounds - 1) {
        my $run = $entry->{runs}[$r];
        $raw[$r]  = $value->($run);
        $fair[$r] = $raw[$r];
        if (defined $raw[$r] && $row->{by_probe} && $run->{probe}) {
            $fair[$r] = $raw[$r] * 1000 / $run->{probe};
        }
    }
    return {
        raw => \@raw, fair => \@fair, all => statistics(@raw), failed => $entry->{failed},
        failures => $entry->{failures},
        runs => scalar(grep { defined } @{ $entry->{runs} }),
    };
}

sub ratio
{
    my ($above, $below) = @_;
    my @ratios;
    for my $r (0 .. $#$above) {
        push @ratios, $above->[$r] / $below->[$r] if defined $above->[$r] && $below->[$r];
    }
    return statistics(@ratios);
}

sub add
{
    my ($self, $suite, $results) = @_;
    my $rounds = $self->{rounds};

    for my $row (@{ $suite->{rows} }) {
        my $value = sub { value_of($_[0], $row->{of}) };
        my %out   = (suite => $suite, row => $row, peers => {});
        my $ours  = $out{ours} = series($results->{ours}, $row, $rounds, $value);
        my %unfair = map { $_ => 1 } @{ $row->{unfair} // [] };

        for my $peer (@{ $suite->{peers} }) {
            my $p = $out{peers}{$peer} = series($results->{$peer}, $row, $rounds, $value);
            $p->{unfair}  = $unfair{$peer};
            $p->{typical} = median(grep { defined } @{ $p->{fair} });
            next if $p->{unfair} || $suite->{variants}{$peer} || !defined $p->{typical};
            my $best = $out{best} && $out{peers}{ $out{best} }{typical};
            $out{best} = $peer
                if !defined $best
                || ($row->{better} eq 'less' ? $p->{typical} < $best : $p->{typical} > $best);
        }
        $out{over_peer} = ratio($ours->{fair}, $out{peers}{ $out{best} }{fair}) if $out{best};
        $self->add_limits(\%out, $results);
        $out{verdict} = $self->judge(\%out);
        push @{ $self->{rows} }, \%out;
    }
    for my $contender (sort keys %$results) {
        $self->keep_measures($suite, $contender, $results->{$contender});
    }
}

# The ratios to the limit of the row and to the ping-pong around the run itself.
sub add_limits
{
    my ($self, $out, $results) = @_;
    my ($row, $ours) = ($out->{row}, $out->{ours});
    my @probes = map { $_ && $_->{probe} } @{ $results->{ours}{runs} }[0 .. $self->{rounds} - 1];

    if ($row->{by_probe}) {
        my @in_us = map { $_ ? $_ / 1000 : undef } @probes;
        $out->{over_probe} = ratio($ours->{raw}, \@in_us);
        if (($row->{limit} // '') eq 'probe') {
            $out->{over_limit} = $out->{over_probe};
            $out->{limit}      = { all => statistics(@in_us) };
        }
    }
    if (ref $row->{limit} && $results->{limit}) {
        my $best = sub { best_of($_[0], $row->{limit}, $row->{better}) };
        $out->{limit} = series($results->{limit}, $row, $self->{rounds}, $best);
        $out->{over_limit} = ratio($ours->{fair}, $out->{limit}{fair});
    }
}

# pass, miss, or what stands in the way; with a question mark when too few rounds counted.
sub judge
{
    my ($self, $out) = @_;
    my %against = (
        limit => $out->{over_limit}, peer => $out->{over_peer}, probe => $out->{over_probe},
        value => $out->{ours}{all},
    );
    my @targets = @{ $out->{row}{target} // [] };

    return $out->{ours}{failed} if $out->{ours}{failed};
    return 'noisy'              if !$out->{ours}{all};
    return ''                   if !@targets;
    my ($verdict, $judged) = ('pass', 0);
    for my $target (@targets) {
        my ($what, $relation, $bound) = @$target;
        my $found = $against{$what} or next;
        $judged++;
        my $good = $relation eq '<=' ? $found->{median} <= $bound : $found->{median} >= $bound;
        $verdict = 'miss' if !$good;
    }
    return 'no peer' if !$judged;
    return $verdict . ($out->{ours}{all}{n} < COUNTS ? '?' : '');
}

sub keep_measures
{
    my ($self, $suite, $contender, $entry) = @_;
    my (%values, %unit);

    for my $run (grep { defined } @{ $entry->{runs} }) {
        for my $name (keys %{ $run->{values} }) {
            push @{ $values{$name} }, $run->{values}{$name}[0];
            $unit{$name} = $run->{values}{$name}[1];
        }
        push @{ $values{'probe,64'} }, $run->{probe} if $run->{probe};
        $unit{'probe,64'} = 'ns';
    }
    for my $name (keys %values) {
        my ($measure, $parameter) = split /,/, $name;
        push @{ $self->{measures} }, {
            suite => $suite->{name}, contender => $contender, measure => $measure,
            parameter => $parameter, unit => $unit{$name}, %{ statistics(@{ $values{$name} }) },
        };
    }
}

# ---- the table -----------------------------------------------------------------------------------

sub machine
{
    my ($self, $processors, $load) = @_;
    my $model = 'unknown processor';
    if (open my $f, '<', '/proc/cpuinfo') {
        ($model) = map { /^model name\s*:\s*(.*)/ ? $1 : () } <$f>;
        close $f;
    }
    $self->{machine} = "$model, $processors processors";
    printf "machine: %s; load %s; %d rounds\n", $self->{machine}, $load // '?', $self->{rounds};
    print "ratios: ours / other, medians over rounds; < or > says which way is better\n";
    print "warning: something else is running; figures mean little\n" if ($load // 0) > 0.7;
}

sub cell
{
    my ($series) = @_;
    return '-' if !$series;
    return ($series->{unfair} ? '*' : '') . number($series->{all}{median}) if $series->{all};
    return $series->{failed} =~ /^FAILED/ ? 'failed' : $series->{failed} if $series->{failed};
    return $series->{runs} ? '-' : 'noisy';
}

sub ours_cell
{
    my ($out) = @_;
    my $all = $out->{ours}{all};
    return cell($out->{ours}) if !$all;
    return sprintf '%s [%s..%s]', map { number($all->{$_}) } qw(median min max);
}

sub print_suite
{
    my ($self, $suite) = @_;
    my @rows = grep { $_->{suite} == $suite } @{ $self->{rows} };
    my @head = ($suite->{group}, '/limit', '/peer', 'ours [min..max]', 'best peer',
        @{ $suite->{peers} }, 'limit', 'target', 'verdict');
    my @lines;

    for my $out (@rows) {
        my $mark = $out->{row}{better} eq 'less' ? '<' : '>';
        push @lines, [
            "$out->{row}{id}, $out->{row}{unit} $mark",
            number($out->{over_limit} && $out->{over_limit}{median}),
            number($out->{over_peer}  && $out->{over_peer}{median}),
            ours_cell($out),
            $out->{best} // '-',
            map({ cell($out->{peers}{$_}) } @{ $suite->{peers} }),
            cell($out->{limit}),
            $out->{row}{says},
            $out->{verdict},
        ];
    }
    print "\n$suite->{name}: $suite->{what}\n";
    print_table(\@head, @lines);
    for my $out (@rows ? $rows[0] : ()) {
        for my $peer (@{ $suite->{peers} }, 'ours') {
            my $series = $peer eq 'ours' ? $out->{ours} : $out->{peers}{$peer};
            next if ($series->{failed} // '') !~ /^FAILED/;
            my $times = $series->{failures} > 1 ? ", $series->{failures} times" : '';
            print "  $peer: $series->{failed}$times\n";
        }
    }
}

# Columns as wide as they need to be; the first and the worded ones to the left.
sub print_table
{
    my ($head, @lines) = @_;
    my @width = map { length } @$head;
    for my $line (@lines) {
        for my $i (0 .. $#$line) {
            my $length = length $line->[$i];
            $width[$i] = $length if $length > $width[$i];
        }
    }
    for my $line ($head, @lines) {
        my @cells;
        for my $i (0 .. $#$line) {
            my $left = $i == 0 || $i == 4 || $i >= $#$line - 1;
            push @cells, sprintf $left ? '%-*s' : '%*s', $width[$i], $line->[$i];
        }
        my $text = join '  ', @cells;
        $text =~ s/\s+$//;
        print "  $text\n";
    }
}

sub summary
{
    my ($self, $thrown) = @_;
    my %count;
    $count{ $_->{verdict} =~ /^FAILED/ ? 'failed' : $_->{verdict} }++ for @{ $self->{rows} };
    delete $count{''};
    print "\n", join(', ', map { "$_: $count{$_}" } sort keys %count), "\n";
    print "$thrown runs thrown away: the machine was not quiet or changed its state\n" if $thrown;
    print "?: fewer than ", COUNTS, " rounds counted   *: not the same work, see bench/README.md\n";
}

# ---- files ---------------------------------------------------------------------------------------

sub quoted
{
    return map {
        my $text = $_ // '';
        if ($text =~ /[",]/) { $text =~ s/"/""/g; $text = "\"$text\"" }
        $text;
    } @_;
}

sub write_csv
{
    my ($self, $file) = @_;
    my @peers = sort grep { $_ ne 'ours' } keys %Suites::about_contender;
    open my $f, '>', $file or do { warn "bench: $file: $!\n"; return };
    print $f join(',', qw(suite row unit better over_limit over_peer ours ours_min ours_max rounds
            best_peer), @peers, qw(limit target verdict)), "\n";
    for my $out (@{ $self->{rows} }) {
        my $all = $out->{ours}{all};
        my @of_peers = map { my $p = $out->{peers}{$_}; $p && $p->{all} ? $p->{all}{median} : '' }
            @peers;
        print $f join(',', quoted(
            $out->{suite}{name}, $out->{row}{id}, $out->{row}{unit}, $out->{row}{better},
            $out->{over_limit} && $out->{over_limit}{median},
            $out->{over_peer} && $out->{over_peer}{median},
            ($all ? @{$all}{qw(median min max n)} : ('', '', '', 0)), $out->{best}, @of_peers,
            $out->{limit} && $out->{limit}{all} && $out->{limit}{all}{median},
            $out->{row}{says}, $out->{verdict},
        )), "\n";
    }
    close $f;
    print "table: $file\n";
}

# Everything that was measured, also what no row shows.
sub write_measures
{
    my ($self, $file) = @_;
    my @order = sort {
               $a->{suite} cmp $b->{suite}
            || $a->{measure} cmp $b->{measure}
            || $a->{contender} cmp $b->{contender}
            || $a->{parameter} <=> $b->{parameter}
    } @{ $self->{measures} };
    open my $f, '>', $file or do { warn "bench: $file: $!\n"; return };
    print $f "suite,contender,measure,param,unit,median,min,max,rounds\n";
    print $f join(',', @{$_}{qw(suite contender measure parameter unit median min max n)}), "\n"
        for @order;
    close $f;
    print "all measures: $file\n";
}

1;
