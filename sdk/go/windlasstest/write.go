package windlasstest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/host"
)

var verbs = [...]string{host.Create: "create", host.Update: "update", host.Patch: "patch", host.Apply: "apply", host.Delete: "delete"}

func (memory *memory) Batch(operations []host.Operation) []host.Read {
	all := make([]host.Read, len(operations))
	for place, operation := range operations {
		all[place] = memory.write(operation)
	}
	return all
}

func (memory *memory) Create(operation host.Operation) host.Read { return memory.write(operation) }

func (memory *memory) Update(operation host.Operation) host.Read { return memory.write(operation) }

func (memory *memory) Patch(operation host.Operation) host.Read { return memory.write(operation) }

func (memory *memory) Apply(operation host.Operation) host.Read { return memory.write(operation) }

func (memory *memory) Delete(operation host.Operation) host.Read { return memory.write(operation) }

func (memory *memory) write(operation host.Operation) host.Read {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	write := Write{Verb: verbs[operation.Verb], Target: operation.Target, Options: operation.Options, Deletion: operation.Delete}
	if operation.Verb != host.Delete {
		write.Body = parsed(operation.Body)
	}
	if object, is := write.Body.(windlass.Object); is && operation.Verb != host.Patch {
		write.Target = refOf(object)
		if write.Target.Namespace == "" {
			write.Target.Namespace = memory.Primary.Namespace
		}
	}
	object, failed := memory.carryOut(write, operation)
	read := host.Read{Err: failed}
	if failed != nil {
		write.Err = failed
	} else if object != nil {
		read.Object = text(projected(object, write.Options.Fields))
	}
	memory.writes = append(memory.writes, write)
	return read
}

// carryOut carries out a write and returns the resulting object.
func (memory *memory) carryOut(write Write, operation host.Operation) (windlass.Object, *windlass.APIError) {
	target := write.Target
	if failed := memory.refused(write.Verb, target); failed != nil {
		return nil, failed
	}
	subresource := write.Options.Subresource
	if subresource != "" && write.Options.Parent != nil {
		target = *write.Options.Parent
	}
	kept, exists := memory.objects[key(target)]
	refuse := func(reason windlass.Reason, message string) (windlass.Object, *windlass.APIError) {
		return nil, &windlass.APIError{
			Code: codes[reason], Reason: reason, StatusReason: reason.String(), Message: message, Verb: write.Verb, Resource: target.Kind,
			Object: &target,
		}
	}
	creates := operation.Verb == host.Create && subresource == ""
	if body, is := write.Body.(windlass.Object); is && creates && target.Name == "" && metadata(body)["generateName"] == nil {
		// An object without a name is of a kind that is not stored.
		if answer, has := memory.answers[target.Kind]; has {
			return answer, nil
		}
		return body, nil
	}
	switch {
	case creates && exists:
		return refuse(windlass.AlreadyExists, "it exists")
	case !exists && !creates && !(operation.Verb == host.Apply && subresource == ""):
		return refuse(windlass.NotFound, "it does not exist")
	case exists && target.UID != "" && metadata(kept)["uid"] != target.UID:
		return refuse(windlass.Conflict, "it has another UID")
	}
	for _, version := range []string{write.Options.ResourceVersion, write.Deletion.ResourceVersion} {
		if exists && version != "" && metadata(kept)["resourceVersion"] != version {
			return refuse(windlass.Conflict, "it has another version")
		}
	}
	if operation.Verb == host.Delete || subresource == "eviction" {
		orphans := operation.Delete.Propagation == host.Orphan
		return memory.remove(target, kept, orphans, operation.Delete.DryRun || write.Options.DryRun), nil
	}
	object, err := changed(kept, write, operation)
	if err != nil {
		return refuse(windlass.Invalid, err.Error())
	}
	fill(memory.definitions.schema(object), object)
	isStrict := write.Options.FieldValidation == host.Strict
	if misfits := memory.definitions.misfits(object, subresource, isStrict); len(misfits) > 0 {
		return refuse(windlass.Invalid, "the object does not fit its definition: "+strings.Join(misfits, "; "))
	}
	return memory.keep(target, kept, object, write.Options), nil
}

// remove deletes an object. It returns the object if finalizers still hold it.
func (memory *memory) remove(target windlass.Ref, kept windlass.Object, orphans, dryRun bool) windlass.Object {
	finalizers, _ := metadata(kept)["finalizers"].([]any)
	if len(finalizers) == 0 {
		if !dryRun {
			memory.drop(target, orphans)
		}
		return nil
	}
	left := plain(kept).(windlass.Object)
	metadata(left)["deletionTimestamp"] = memory.Time.Format(time.RFC3339)
	if !dryRun {
		memory.objects[key(target)] = left
	}
	return left
}

// drop removes an object, and the objects that it controls, as the garbage collector does.
func (host *Host) drop(target windlass.Ref, orphans bool) {
	gone, has := host.objects[key(target)]
	if !has {
		return
	}
	delete(host.objects, key(target))
	uid := metadata(gone)["uid"]
	for ref, object := range host.objects {
		if owner := controller(object); owner == nil || owner["uid"] != uid {
			continue
		}
		meta := metadata(object)
		finalizers, _ := meta["finalizers"].([]any)
		switch {
		case orphans:
			owners, _ := meta["ownerReferences"].([]any)
			meta["ownerReferences"] = slices.DeleteFunc(owners, func(owner any) bool {
				return owner.(windlass.Object)["uid"] == uid
			})
		case len(finalizers) > 0:
			meta["deletionTimestamp"] = host.Time.Format(time.RFC3339)
		default:
			host.drop(ref, false)
		}
	}
}

// changed returns the object after a write.
func changed(kept windlass.Object, write Write, operation host.Operation) (windlass.Object, error) {
	body := plain(write.Body)
	if subresource := write.Options.Subresource; subresource != "" {
		return subresourced(kept, body, subresource, operation)
	}
	switch operation.Verb {
	case host.Create:
		return body.(windlass.Object), nil
	case host.Update:
		object := body.(windlass.Object)
		for _, own := range []string{"uid", "creationTimestamp", "generation"} {
			metadata(object)[own] = metadata(kept)[own]
		}
		return object, nil
	case host.Apply:
		return merged(kept, body, false).(windlass.Object), nil
	}
	if operation.PatchType == host.JSON {
		return patched(plain(kept).(windlass.Object), body.([]any))
	}
	return merged(kept, body, true).(windlass.Object), nil
}

// subresourced changes a subresource of an object: its status, or its scale.
func subresourced(kept windlass.Object, body any, subresource string, operation host.Operation) (windlass.Object, error) {
	if operation.Verb == host.Patch && operation.PatchType == host.JSON {
		return patched(plain(kept).(windlass.Object), body.([]any))
	}
	part := subresource
	if subresource == "scale" {
		part = "spec"
	}
	object := plain(kept).(windlass.Object)
	fields, _ := body.(windlass.Object)
	switch {
	case operation.Verb == host.Update:
		object[part] = fields[part]
	case fields[part] != nil:
		object[part] = merged(object[part], fields[part], operation.Verb == host.Patch)
	}
	return object, nil
}

// keep stores an object and returns it.
func (memory *memory) keep(target windlass.Ref, before, object windlass.Object, options host.WriteOptions) windlass.Object {
	meta := metadata(object)
	if meta["namespace"] == nil && target.Namespace != "" {
		meta["namespace"] = target.Namespace
	}
	if generate, is := meta["generateName"].(string); is && meta["name"] == nil {
		meta["name"] = fmt.Sprint(generate, memory.version+1)
	}
	if options.Owned && controller(object) == nil {
		owners, _ := meta["ownerReferences"].([]any)
		meta["ownerReferences"] = append(owners, memory.owner())
	}
	if before != nil && windlass.HasFields(before, object) && windlass.HasFields(object, before) {
		return object
	}
	delete(meta, "resourceVersion")
	if before != nil && options.Subresource != "status" && text(before["spec"]) != text(object["spec"]) {
		generation, _ := metadata(before)["generation"].(int64)
		meta["generation"] = generation + 1
	}
	memory.stamp(object)
	if finalizers, _ := meta["finalizers"].([]any); meta["deletionTimestamp"] != nil && len(finalizers) == 0 {
		memory.drop(target, false)
		return object
	}
	if !options.DryRun {
		memory.objects[refOf(object)] = plain(object).(windlass.Object)
	}
	return object
}

// stamp adds the fields that a server would add.
func (host *Host) stamp(object windlass.Object) {
	host.version++
	meta := metadata(object)
	for key, value := range map[string]any{
		"uid": fmt.Sprint("uid-", host.version), "resourceVersion": fmt.Sprint(host.version), "generation": int64(1),
		"creationTimestamp": host.Time.Format(time.RFC3339),
	} {
		if meta[key] == nil {
			meta[key] = value
		}
	}
}

// selects reports whether a label selector matches an object. It supports `a=b`, `a==b`, `a!=b`, `a` and `!a`.
func selects(selector string, object windlass.Object) bool {
	labels, _ := metadata(object)["labels"].(windlass.Object)
	for _, part := range strings.Split(selector, ",") {
		part = strings.TrimSpace(part)
		name, value, compares := strings.Cut(part, "=")
		not := strings.HasSuffix(name, "!") || strings.HasPrefix(name, "!")
		name = strings.Trim(strings.TrimSpace(name), "! ")
		has, is := labels[name]
		switch {
		case part == "":
			continue
		case strings.ContainsAny(part, "() "):
			panic("windlasstest: the selector " + selector + " is not supported by this host")
		case compares:
			is = is && has == strings.TrimSpace(strings.TrimPrefix(value, "="))
		}
		if is == not {
			return false
		}
	}
	return true
}
