// Checks metrics, rules and expressions with Prometheus' own code, as `promtool check` does: the /metrics page of a
// host, and the alerts and the dashboard of the chart. promtool itself would compile all of Prometheus.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
)

const usage = `usage: promlint metrics|rules|uses < FILE
  metrics  prints what promtool's "check metrics" finds in a page of the form OpenMetrics, as "NAME: PROBLEM"
  rules    fails with what "check rules" finds in a file of rules; prints the names of the rules
  uses     prints the metrics that expressions use, one expression a line, as "NAME LABEL…" with the labels they select by`

func main() {
	commands := map[string]func([]byte) ([]string, error){"metrics": metrics, "rules": rules, "uses": uses}
	if len(os.Args) != 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	input, err := io.ReadAll(os.Stdin)
	var lines []string
	if err == nil {
		lines, err = commands[os.Args[1]](input)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "promlint:", err)
		os.Exit(1)
	}
	for _, line := range lines {
		fmt.Println(line)
	}
}

// metrics checks a page of metrics. A page that is not OpenMetrics is an error. Other results are violations of
// Prometheus' conventions.
func metrics(page []byte) ([]string, error) {
	families, err := read(page)
	if err != nil {
		return nil, err
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	lines := make([]string, 0, len(problems))
	for _, problem := range problems {
		lines = append(lines, problem.Metric+": "+problem.Text)
	}
	return lines, err
}

var types = map[model.MetricType]dto.MetricType{
	model.MetricTypeCounter:   dto.MetricType_COUNTER,
	model.MetricTypeGauge:     dto.MetricType_GAUGE,
	model.MetricTypeHistogram: dto.MetricType_HISTOGRAM,
	model.MetricTypeSummary:   dto.MetricType_SUMMARY,
}

// read extracts what promlint checks from a page: names, help, types and labels. promlint cannot read OpenMetrics
// itself, in which the name of a counter family has no _total.
func read(page []byte) ([]*dto.MetricFamily, error) {
	textParser := textparse.NewOpenMetricsParser(page, labels.NewSymbolTable())
	var families []*dto.MetricFamily
	family := func(name string) *dto.MetricFamily {
		if at := slices.IndexFunc(families, func(it *dto.MetricFamily) bool { return it.GetName() == name }); at >= 0 {
			return families[at]
		}
		families = append(families, &dto.MetricFamily{Name: &name})
		return families[len(families)-1]
	}
	var current *dto.MetricFamily
	for {
		entry, err := textParser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return families, nil
		case err != nil:
			return nil, err
		}
		switch entry {
		case textparse.EntryHelp:
			name, help := textParser.Help()
			text := string(help)
			current = family(string(name))
			current.Help = &text
		case textparse.EntryType:
			name, kind := textParser.Type()
			type_, known := types[kind]
			if !known {
				return nil, fmt.Errorf("%s is of the type %s, which promlint does not know", name, kind)
			}
			current = family(string(name))
			current.Type = &type_
			if full := strings.TrimSuffix(string(name), "_total") + "_total"; type_ == dto.MetricType_COUNTER {
				current.Name = &full
			}
		case textparse.EntrySeries:
			series, _, value := textParser.Series()
			if current == nil || current.Type == nil {
				return nil, fmt.Errorf("%s comes before its type", series)
			}
			var all labels.Labels
			textParser.Labels(&all)
			if err := add(current, all, value); err != nil {
				return nil, err
			}
		}
	}
}

// add adds a series to its family. Of a histogram, it adds only the count, which stands for all lines of the histogram.
func add(family *dto.MetricFamily, all labels.Labels, value float64) error {
	name := all.Get(model.MetricNameLabel)
	metric := &dto.Metric{}
	all.Range(func(label labels.Label) {
		isPart := label.Name == model.BucketLabel && family.GetType() == dto.MetricType_HISTOGRAM
		if label.Name != model.MetricNameLabel && !isPart {
			metric.Label = append(metric.Label, &dto.LabelPair{Name: &label.Name, Value: &label.Value})
		}
	})
	suffixes := []string{""}
	switch family.GetType() {
	case dto.MetricType_COUNTER:
		metric.Counter = &dto.Counter{Value: &value}
	case dto.MetricType_HISTOGRAM:
		suffixes = []string{"_bucket", "_sum", "_count"}
		metric.Histogram = &dto.Histogram{}
	default:
		metric.Gauge = &dto.Gauge{Value: &value}
	}
	if !slices.ContainsFunc(suffixes, func(suffix string) bool {
		return name == family.GetName()+suffix
	}) {
		return fmt.Errorf("%s is in the midst of %s", name, family.GetName())
	}
	if metric.Histogram == nil || strings.HasSuffix(name, "_count") {
		family.Metric = append(family.Metric, metric)
	}
	return nil
}

// rules checks a file of rules: its form, expressions, durations, labels and templates.
func rules(file []byte) ([]string, error) {
	groups, problems := rulefmt.Parse(file, false, model.LegacyValidation)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	var lines []string
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			lines = append(lines, rule.Alert+rule.Record)
		}
	}
	return lines, nil
}

// uses lists the metrics that expressions use. Each line of the input is one expression.
func uses(expressions []byte) ([]string, error) {
	var lines []string
	scanner := bufio.NewScanner(bytes.NewReader(expressions))
	for scanner.Scan() {
		expression, err := parser.ParseExpr(scanner.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", scanner.Text(), err)
		}
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			if selector, is := node.(*parser.VectorSelector); is {
				line := selector.Name
				for _, matcher := range selector.LabelMatchers {
					if matcher.Name != model.MetricNameLabel {
						line += " " + matcher.Name
					}
				}
				lines = append(lines, line)
			}
			return nil
		})
	}
	slices.Sort(lines)
	return slices.Compact(lines), scanner.Err()
}
