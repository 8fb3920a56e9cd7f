package main

import (
	"encoding/json"
	"time"

	"windlass.dev/conformance/pure"
	"windlass.dev/sdk"
	"windlass.dev/sdk/writes"
)

// write is a change that a step specifies.
type write struct {
	Op        string
	Target    pure.Target
	Object    json.RawMessage
	PatchType string
	Patch     json.RawMessage
	Options   options
}

type options struct {
	Subresource *struct {
		Name   string
		Parent *pure.Target
	}
	ResourceVersion string
	Owned           bool
	Force           bool
	DryRun          bool
	FieldValidation string
	Propagation     string
	GracePeriodMs   *int64
	ManagerSuffix   string
	Fields          []string
}

func (of options) list() []writes.Option {
	var all []writes.Option
	add := func(when bool, option writes.Option) {
		if when {
			all = append(all, option)
		}
	}
	if of.Subresource != nil {
		add(true, writes.Subresource(of.Subresource.Name))
		if of.Subresource.Parent != nil {
			add(true, writes.Of(of.Subresource.Parent.Ref()))
		}
	}
	add(of.ResourceVersion != "", writes.IfVersion(of.ResourceVersion))
	add(of.Owned, writes.Owned())
	add(of.Force, writes.Force())
	add(of.DryRun, writes.DryRun())
	add(of.FieldValidation == "warn", writes.Warn)
	add(of.FieldValidation == "ignore", writes.Ignore)
	add(of.ManagerSuffix != "", writes.ManagerSuffix(of.ManagerSuffix))
	add(of.Fields != nil, writes.Fields(of.Fields...))
	add(of.Propagation == "foreground", writes.Foreground)
	add(of.Propagation == "orphan", writes.Orphan)
	if of.GracePeriodMs != nil {
		add(true, writes.GracePeriod(time.Duration(*of.GracePeriodMs)*time.Millisecond))
	}
	return all
}

// object returns the body as a Go value.
func (write write) object() any { return decoded(write.Object) }

func decoded(document json.RawMessage) any {
	var value any
	if err := windlass.Decode(document, &value); err != nil {
		panic(err)
	}
	return value
}

func orNull(document json.RawMessage) any {
	if len(document) == 0 {
		return nil
	}
	return decoded(document)
}

func (write write) steps() []writes.Step {
	var steps []writes.Step
	for _, each := range decoded(write.Patch).([]any) {
		each := each.(map[string]any)
		text := func(key string) string { text, _ := each[key].(string); return text }
		value, has := each["value"]
		if has && value == nil {
			value = json.RawMessage("null")
		}
		steps = append(steps, writes.Step{Op: text("op"), Path: text("path"), From: text("from"), Value: value})
	}
	return steps
}

func (step step) change() (pure.Result, bool) {
	write, options := step.write, step.Options.list()
	switch step.Call {
	case "writes.create":
		return pure.Of(writes.Create(write.object(), options...)), true
	case "writes.update":
		return pure.Of(writes.Update(write.object(), options...)), true
	case "writes.apply":
		return pure.Of(writes.Apply(write.object(), options...)), true
	case "writes.patch":
		return pure.Of(write.patch(options)), true
	case "writes.delete":
		left, err := writes.Delete(write.Target.Ref(), options...)
		return pure.Of(orNull(left), err), true
	case "writes.delete-collection":
		deleted, err := writes.DeleteCollection(step.Collection, options...)
		if deleted == nil {
			return pure.Of(nil, err), true
		}
		return pure.Of(refs(deleted), err), true
	case "writes.evict":
		return pure.Of(nil, writes.Evict(write.Target.Ref())), true
	case "writes.batch":
		return batch(step.Operations), true
	}
	return nil, false
}

func (write write) patch(options []writes.Option) (any, error) {
	switch write.PatchType {
	case "json":
		return writes.JSONPatch[any](write.Target.Ref(), write.steps(), options...)
	case "strategic":
		return writes.StrategicPatch[any](write.Target.Ref(), decoded(write.Patch), options...)
	}
	return writes.MergePatch[any](write.Target.Ref(), decoded(write.Patch), options...)
}

func (write write) operation() writes.Operation {
	options := write.Options.list()
	switch write.Op {
	case "create":
		return writes.Creation(write.object(), options...)
	case "update":
		return writes.Replacement(write.object(), options...)
	case "apply":
		return writes.Application(write.object(), options...)
	case "delete":
		return writes.Deletion(write.Target.Ref(), options...)
	}
	switch write.PatchType {
	case "json":
		return writes.Stepping(write.Target.Ref(), write.steps(), options...)
	case "strategic":
		return writes.Strategy(write.Target.Ref(), decoded(write.Patch), options...)
	}
	return writes.Merging(write.Target.Ref(), decoded(write.Patch), options...)
}

func batch(of []write) pure.Result {
	operations := make([]writes.Operation, len(of))
	for place, write := range of {
		operations[place] = write.operation()
	}
	results := []pure.Result{}
	for _, result := range writes.Batch(operations...) {
		results = append(results, pure.Of(orNull(result.Object), result.Err))
	}
	return pure.Result{"ok": results}
}
