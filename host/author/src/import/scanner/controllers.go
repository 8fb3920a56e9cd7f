package main

import (
	"cmp"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// readDeclarations reads the functions and struct types of a file.
func (file *source) readDeclarations() {
	for _, declaration := range file.tree.Decls {
		switch it := declaration.(type) {
		case *ast.FuncDecl:
			if it.Body == nil {
				continue
			}
			body := &function{source: file, declaration: it, variables: map[string]ast.Expr{}}
			body.managers = body.findManagers()
			body.keepVariables()
			body.readControllers()
			body.readSetups()
			body.readManagerUses()
		case *ast.GenDecl:
			file.readTypes(it)
		}
	}
}

func (file *source) readTypes(declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		switch it := spec.(type) {
		case *ast.TypeSpec:
			structure, is := it.Type.(*ast.StructType)
			if !is {
				continue
			}
			found := Struct{Folder: file.folder, Name: it.Name.Name}
			_, reconciles := file.results[functionName{file.folder, it.Name.Name, "Reconcile"}]
			reconciles = reconciles || strings.HasSuffix(it.Name.Name, "Reconciler")
			for _, field := range structure.Fields.List {
				imported, name := file.named(field.Type)
				if len(field.Names) == 0 {
					found.Fields = append(found.Fields, name)
				}
				for _, named := range field.Names {
					found.Fields = append(found.Fields, named.Name)
					if reconciles && (isState(imported, field.Type) || strings.Contains(name, "Expectations")) {
						file.use(named, "state", it.Name.Name+"."+named.Name, "")
					}
				}
			}
			file.Structs = append(file.Structs, found)
		case *ast.ValueSpec:
			if declaration.Tok != token.VAR {
				continue
			}
			for at, name := range it.Names {
				imported, _ := file.named(it.Type)
				isKept := isState(imported, it.Type)
				if at < len(it.Values) {
					isKept = isKept || isMade(it.Values[at])
				}
				if isKept {
					file.use(name, "state", name.Name, "")
				}
			}
		}
	}
}

// isState reports whether a variable of this type usually holds state between calls.
func isState(imported string, kind ast.Expr) bool {
	switch kind.(type) {
	case *ast.MapType, *ast.ChanType:
		return true
	}
	return imported == "sync"
}

// isMade reports whether a value is an empty map or channel, which code fills later.
func isMade(value ast.Expr) bool {
	switch it := value.(type) {
	case *ast.CallExpr:
		name, is := it.Fun.(*ast.Ident)
		return is && name.Name == "make"
	case *ast.CompositeLit:
		_, is := it.Type.(*ast.MapType)
		return is && len(it.Elts) == 0
	}
	return false
}

// function is a function with the variables that are assigned in it.
type function struct {
	*source
	declaration *ast.FuncDecl
	// managers are the names of the variables that hold a manager.
	managers map[string]bool
	// variables has the first value of each local variable, or its type.
	variables map[string]ast.Expr
}

func isOfControllerRuntime(imported string, packages ...string) bool {
	if imported == controllerRuntime {
		return true
	}
	within, is := strings.CutPrefix(imported, controllerRuntime+"/pkg/")
	return is && slices.Contains(packages, within)
}

// findManagers returns the parameters of the type Manager, and the variables to which a new manager is assigned.
func (it *function) findManagers() map[string]bool {
	found := map[string]bool{}
	fields := it.declaration.Type.Params.List
	for _, field := range fields {
		if imported, name := it.named(field.Type); name == "Manager" && isOfControllerRuntime(imported, "manager") {
			for _, named := range field.Names {
				found[named.Name] = true
			}
		}
	}
	ast.Inspect(it.declaration.Body, func(node ast.Node) bool {
		assignment, is := node.(*ast.AssignStmt)
		if !is || len(assignment.Rhs) != 1 {
			return true
		}
		call, is := assignment.Rhs[0].(*ast.CallExpr)
		if !is {
			return true
		}
		imported, name := it.named(call.Fun)
		if (name == "NewManager" && imported == controllerRuntime) || (name == "New" && isOfControllerRuntime(imported, "manager")) {
			if variable, is := assignment.Lhs[0].(*ast.Ident); is {
				found[variable.Name] = true
			}
		}
		return true
	})
	return found
}

func (it *function) keepVariables() {
	keep := func(name string, value ast.Expr) {
		if it.variables[name] == nil {
			it.variables[name] = value
		}
	}
	ast.Inspect(it.declaration.Body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.AssignStmt:
			for at, left := range node.Lhs {
				if name, is := left.(*ast.Ident); is && len(node.Lhs) == len(node.Rhs) {
					keep(name.Name, node.Rhs[at])
				}
			}
		case *ast.ValueSpec:
			for at, name := range node.Names {
				if at < len(node.Values) {
					keep(name.Name, node.Values[at])
				} else if node.Type != nil {
					keep(name.Name, &ast.CompositeLit{Type: node.Type})
				}
			}
		}
		return true
	})
}

// readControllers reads the chains of a builder's calls. A chain may be divided over several statements.
func (it *function) readControllers() {
	roots := map[ast.Node]*Controller{}
	variables := map[string]ast.Node{}
	var order []ast.Node
	var root func(ast.Expr) ast.Node
	root = func(expression ast.Expr) ast.Node {
		switch expression := expression.(type) {
		case *ast.ParenExpr:
			return root(expression.X)
		case *ast.Ident:
			return variables[expression.Name]
		case *ast.CallExpr:
			imported, name := it.named(expression.Fun)
			if isOfControllerRuntime(imported, "builder") && (name == "NewControllerManagedBy" || name == "ControllerManagedBy") {
				return expression
			}
			if method, is := expression.Fun.(*ast.SelectorExpr); is {
				return root(method.X)
			}
		}
		return nil
	}
	ast.Inspect(it.declaration.Body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.AssignStmt:
			for at, left := range node.Lhs {
				if name, is := left.(*ast.Ident); is && len(node.Lhs) == len(node.Rhs) {
					if of := root(node.Rhs[at]); of != nil {
						variables[name.Name] = of
					}
				}
			}
		case *ast.CallExpr:
			of := root(node)
			if of == nil {
				return true
			}
			if roots[of] == nil {
				roots[of] = it.controller(of)
				order = append(order, of)
			}
			if method, is := node.Fun.(*ast.SelectorExpr); is && ast.Node(node) != of {
				it.readStep(roots[of], method, node)
			}
		}
		return true
	})
	for _, of := range order {
		found := roots[of]
		slices.SortStableFunc(found.Watches, func(a, b Watch) int { return cmp.Compare(a.Line, b.Line) })
		it.Controllers = append(it.Controllers, *found)
	}
}

func (it *function) controller(at ast.Node) *Controller {
	return &Controller{
		Place: it.place(at.Pos()), Folder: it.folder, Receiver: it.receiver(it.declaration),
		Function: it.declaration.Name.Name, Watches: []Watch{},
	}
}

// readStep reads one call of a builder.
func (it *function) readStep(of *Controller, method *ast.SelectorExpr, call *ast.CallExpr) {
	name := method.Sel.Name
	switch name {
	case "Named":
		of.Named = true
		if len(call.Args) == 1 {
			of.Name, _ = it.constant(call.Args[0], 0)
		}
	case "For", "Owns", "Watches", "WatchesMetadata":
		if len(call.Args) == 0 {
			return
		}
		found := Watch{Place: it.place(method.Sel.Pos()), Role: name}
		found.Import, found.Type = it.objectType(call.Args[0], 0)
		if found.Import == "" {
			found.Type = it.sourceOf(call.Args[0])
		}
		if name == "WatchesMetadata" {
			found.Role = "Watches"
		}
		of.Watches = append(of.Watches, found)
	case "WatchesRawSource":
		it.use(method.Sel, "builder", name, "")
	}
}

// objectType returns the type of an object such as &v1.Pod{}, or of a variable that holds one.
func (it *function) objectType(expression ast.Expr, depth int) (imported, name string) {
	if depth > constantsDepthMax {
		return "", ""
	}
	switch expression := expression.(type) {
	case *ast.UnaryExpr:
		return it.objectType(expression.X, depth+1)
	case *ast.ParenExpr:
		return it.objectType(expression.X, depth+1)
	case *ast.CompositeLit:
		return it.named(expression.Type)
	case *ast.CallExpr:
		if made, is := expression.Fun.(*ast.Ident); is && made.Name == "new" && len(expression.Args) == 1 {
			return it.named(expression.Args[0])
		}
	case *ast.Ident:
		if value := it.variables[expression.Name]; value != nil {
			return it.objectType(value, depth+1)
		}
	}
	return "", ""
}

// readManagerUses keeps the calls of a manager's methods.
func (it *function) readManagerUses() {
	ast.Inspect(it.declaration.Body, func(node ast.Node) bool {
		call, is := node.(*ast.CallExpr)
		if !is {
			return true
		}
		method, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return true
		}
		if of, is := method.X.(*ast.Ident); is && it.managers[of.Name] {
			it.use(method.Sel, "manager", method.Sel.Name, "")
		}
		return true
	})
}
