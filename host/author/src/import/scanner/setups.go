package main

import (
	"go/ast"
	"go/format"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// manager is the name of the manager in the new main.go.
const manager = "mgr"

// readSetups reads the calls that pass a manager on, such as (&controller.ShopReconciler{…}).SetupWithManager(mgr).
func (it *function) readSetups() {
	if len(it.managers) == 0 {
		return
	}
	ast.Inspect(it.declaration.Body, func(node ast.Node) bool {
		call, is := node.(*ast.CallExpr)
		if !is {
			return true
		}
		method, is := call.Fun.(*ast.SelectorExpr)
		if !is || !isSetup(method.Sel.Name) || !slices.ContainsFunc(call.Args, it.isManager) {
			return true
		}
		if of, is := method.X.(*ast.Ident); is && it.declaration.Recv != nil && it.isReceiver(of.Name) {
			return true
		}
		it.Setups = append(it.Setups, it.setup(call, method))
		return true
	})
}

// isSetup reports whether a function of this name sets up controllers.
func isSetup(name string) bool {
	if strings.Contains(name, "Webhook") {
		return false
	}
	for _, start := range []string{"Setup", "AddToManager", "Register", "Install"} {
		if strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

func (it *function) isManager(expression ast.Expr) bool {
	name, is := expression.(*ast.Ident)
	return is && it.managers[name.Name]
}

func (it *function) isReceiver(name string) bool {
	for _, field := range it.declaration.Recv.List {
		for _, named := range field.Names {
			if named.Name == name {
				return true
			}
		}
	}
	return false
}

func (it *function) setup(call *ast.CallExpr, method *ast.SelectorExpr) Setup {
	found := Setup{
		Place: it.place(call.Pos()), Folder: it.folder, Original: it.sourceOf(call),
		Imports: []Import{}, Dropped: []Dropped{},
	}
	writer := &writer{function: it, setup: &found}
	receiver := writer.receiver(method.X)
	arguments := make([]string, 0, len(call.Args))
	for _, argument := range call.Args {
		arguments = append(arguments, writer.expression(argument))
	}
	if len(writer.unknown) > 0 {
		found.Reason = strings.Join(writer.unknown, ", ")
		return found
	}
	source := receiver + "." + method.Sel.Name + "(" + strings.Join(arguments, ", ") + ")"
	if formatted, err := format.Source([]byte(source)); err == nil {
		source = string(formatted)
	}
	found.Source = source
	found.Returns = it.returns(found.Import, found.Type, method.Sel.Name)
	return found
}

// returns says what a function of the project returns: "error", "none" or "other". A function that is not in the
// project is assumed to return an error.
func (it *function) returns(imported, receiver, name string) string {
	folder, is := it.folderOf(imported)
	list, isKnown := it.results[functionName{folder, receiver, name}]
	switch {
	case !is || !isKnown:
		return "error"
	case list == nil || list.NumFields() == 0:
		return "none"
	case list.NumFields() == 1:
		if result, is := list.List[0].Type.(*ast.Ident); is && result.Name == "error" {
			return "error"
		}
	}
	return "other"
}

// writer writes an expression of one function for another one, which has only the manager.
type writer struct {
	*function
	setup *Setup
	// unknown are the names that the other function does not have.
	unknown []string
}

// receiver writes the value on which a set-up method is called: a literal, a variable that holds a literal, or a
// package.
func (it *writer) receiver(expression ast.Expr) string {
	for {
		inner, is := expression.(*ast.ParenExpr)
		if !is {
			break
		}
		expression = inner.X
	}
	if name, is := expression.(*ast.Ident); is && it.variables[name.Name] != nil {
		expression = it.variables[name.Name]
	}
	pointer := ""
	literal := expression
	if address, is := expression.(*ast.UnaryExpr); is {
		pointer, literal = "&", address.X
	}
	fields, is := literal.(*ast.CompositeLit)
	if !is {
		it.setup.Import, it.setup.Type = it.named(expression)
		if of, is := expression.(*ast.Ident); is && it.imports[of.Name] != "" {
			it.setup.Import, it.setup.Type = it.imports[of.Name], ""
		}
		return it.expression(expression)
	}
	it.setup.Import, it.setup.Type = it.named(fields.Type)
	return "(" + pointer + it.literal(fields) + ")"
}

// literal writes a struct literal without the fields whose values need something else than the manager.
func (it *writer) literal(literal *ast.CompositeLit) string {
	text := it.expression(literal.Type) + "{\n"
	for _, element := range literal.Elts {
		field, is := element.(*ast.KeyValueExpr)
		key, isName := ast.Expr(nil), false
		if is {
			key = field.Key
			_, isName = key.(*ast.Ident)
		}
		if !isName {
			it.unknown = append(it.unknown, it.sourceOf(element))
			continue
		}
		value := &writer{function: it.function, setup: &Setup{}}
		written := value.expression(field.Value)
		if len(value.unknown) > 0 {
			it.setup.Dropped = append(it.setup.Dropped, Dropped{it.place(field.Pos()), it.sourceOf(key), it.sourceOf(field.Value)})
			continue
		}
		it.setup.Imports = append(it.setup.Imports, value.setup.Imports...)
		text += it.sourceOf(key) + ": " + written + ",\n"
	}
	return text + "}"
}

// expression writes an expression as it is, and notes what it needs. The manager gets its new name.
func (it *writer) expression(expression ast.Expr) string {
	type edit struct {
		from, to int
		text     string
	}
	var edits []edit
	start := it.set.Position(expression.Pos()).Offset
	ast.Inspect(expression, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			it.unknown = append(it.unknown, "a function literal")
			return false
		case *ast.Ident:
			at := it.set.Position(node.Pos()).Offset - start
			switch {
			case it.isSelected(expression, node):
			case it.managers[node.Name]:
				edits = append(edits, edit{at, at + len(node.Name), manager})
			case it.imports[node.Name] != "":
				edits = append(edits, edit{at, at + len(node.Name), it.needs(node.Name)})
			case it.isScheme(node.Name):
				edits = append(edits, edit{at, at + len(node.Name), manager + ".GetScheme()"})
			case types.Universe.Lookup(node.Name) != nil:
			case !slices.Contains(it.unknown, node.Name):
				it.unknown = append(it.unknown, node.Name)
			}
		}
		return true
	})
	text := it.text[start:it.set.Position(expression.End()).Offset]
	for _, edit := range slices.Backward(edits) {
		text = text[:edit.from] + edit.text + text[edit.to:]
	}
	return bounded(text)
}

// needs notes an import, and returns the name that it has in the new file.
func (it *writer) needs(name string) string {
	needed := Import{it.alias(it.imports[name], name), it.imports[name]}
	if !slices.Contains(it.setup.Imports, needed) {
		it.setup.Imports = append(it.setup.Imports, needed)
	}
	return needed.Name
}

// alias returns the name that an import has in the new main.go. Sources may use one name for different imports.
func (all *project) alias(imported, preferred string) string {
	if name := all.aliases[imported]; name != "" {
		return name
	}
	name := preferred
	for number := 2; all.isTaken(name); number++ {
		name = preferred + strconv.Itoa(number)
	}
	all.aliases[imported] = name
	return name
}

func (all *project) isTaken(name string) bool {
	for _, other := range all.aliases {
		if other == name {
			return true
		}
	}
	return slices.Contains([]string{manager, "err", "fail", "main", "init", "scheme"}, name)
}

// isSelected reports whether a name is the second part of a selector, or the name of a field.
func (it *writer) isSelected(within ast.Expr, name *ast.Ident) (is bool) {
	ast.Inspect(within, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			is = is || node.Sel == name
		case *ast.KeyValueExpr:
			is = is || node.Key == ast.Expr(name)
		}
		return !is
	})
	return is
}

// isScheme reports whether a name is a variable of the package, or of this function, that holds a new scheme.
func (it *writer) isScheme(name string) bool {
	isNew := func(value ast.Expr) bool {
		call, is := value.(*ast.CallExpr)
		if !is {
			return false
		}
		imported, called := it.named(call.Fun)
		return called == "NewScheme" && imported == "k8s.io/apimachinery/pkg/runtime"
	}
	if isNew(it.variables[name]) {
		return true
	}
	for _, other := range it.files {
		if other.folder != it.folder {
			continue
		}
		for _, declaration := range other.tree.Decls {
			general, is := declaration.(*ast.GenDecl)
			if !is {
				continue
			}
			for _, spec := range general.Specs {
				values, is := spec.(*ast.ValueSpec)
				if !is {
					continue
				}
				for at, named := range values.Names {
					if named.Name == name && at < len(values.Values) && isNew(values.Values[at]) {
						return true
					}
				}
			}
		}
	}
	return false
}
