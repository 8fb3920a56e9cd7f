package main

import (
	"go/ast"
	"strings"
)

// readUses keeps the uses of reported imports, goroutines, the calls that fill a scheme, and finalizers.
func (file *source) readUses() {
	for _, spec := range file.tree.Imports {
		// A blank import has no uses.
		if spec.Name != nil && spec.Name.Name == "_" {
			if imported := strings.Trim(spec.Path.Value, "\"`"); file.isReported(imported) {
				file.use(spec, imported, "_", "")
			}
		}
	}
	for _, declaration := range file.tree.Decls {
		if general, is := declaration.(*ast.GenDecl); is && len(general.Specs) > 0 {
			if _, is := general.Specs[0].(*ast.ImportSpec); is {
				continue
			}
		}
		ast.Inspect(declaration, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.GoStmt:
				file.use(node, "go", "go", "")
			case *ast.CallExpr:
				file.readCall(node)
			case *ast.CompositeLit:
				file.typeUse(node.Type)
				file.readOptions(node)
			case *ast.ValueSpec:
				file.typeUse(node.Type)
			case *ast.SelectorExpr:
				if imported, name := file.named(node); file.isReported(imported) {
					file.use(node, imported, name, "")
				}
			}
			return true
		})
	}
}

// typeUse keeps the use of a type of another package.
func (file *source) typeUse(of ast.Expr) {
	imported, name := file.named(of)
	found := TypeUse{file.folder, imported, name}
	if name != "" && imported != file.importOf(file.folder) && !file.typeUses[found] {
		file.typeUses[found] = true
		file.TypeUses = append(file.TypeUses, found)
	}
}

// readOptions keeps the fields of a manager's options, with their sources.
func (file *source) readOptions(literal *ast.CompositeLit) {
	if imported, name := file.named(literal.Type); name != "Options" || !isOfControllerRuntime(imported, "manager") {
		return
	}
	for _, element := range literal.Elts {
		if field, is := element.(*ast.KeyValueExpr); is {
			if key, is := field.Key.(*ast.Ident); is {
				file.use(field, "options", key.Name, file.sourceOf(field.Value))
			}
		}
	}
}

func (file *source) isReported(imported string) bool {
	for _, reported := range file.Imports {
		if imported == reported || (strings.HasSuffix(reported, "/") && strings.HasPrefix(imported+"/", reported)) {
			return true
		}
	}
	return false
}

// readCall adds the constant first argument to the use that the walk of the function's name would keep without it.
func (file *source) readCall(call *ast.CallExpr) {
	imported, name := file.named(call.Fun)
	if len(call.Args) > 0 && file.isReported(imported) {
		if text, is := file.constant(call.Args[0], 0); is {
			file.use(call.Fun, imported, name, text)
		}
	}
	if strings.HasSuffix(imported, "pkg/controller/controllerutil") && len(call.Args) == 2 {
		if name == "AddFinalizer" || name == "RemoveFinalizer" {
			value, _ := file.constant(call.Args[1], 0)
			file.Finalizers = append(file.Finalizers, Finalizer{file.place(call.Pos()), value})
		}
	}
	file.readScheme(call)
}

// readScheme keeps a call such as v1.AddToScheme(scheme), or v1.SchemeBuilder.AddToScheme(scheme).
func (file *source) readScheme(call *ast.CallExpr) {
	method, is := call.Fun.(*ast.SelectorExpr)
	if !is || len(call.Args) != 1 || (method.Sel.Name != "AddToScheme" && method.Sel.Name != "Install") {
		return
	}
	called, of := method.Sel.Name, method.X
	if inner, is := of.(*ast.SelectorExpr); is {
		called, of = inner.Sel.Name+"."+called, inner.X
	}
	if name, is := of.(*ast.Ident); is && file.imports[name.Name] != "" {
		imported := file.imports[name.Name]
		found := Scheme{file.place(call.Pos()), file.folder, Import{file.alias(imported, name.Name), imported}, called}
		file.Schemes = append(file.Schemes, found)
	}
}

// use keeps a use. One line has one use of a name; the one with a text counts.
func (file *source) use(node ast.Node, imported, name, text string) {
	found := Use{file.place(node.Pos()), file.folder, imported, name, text}
	for at := len(file.Uses) - 1; at >= 0 && file.Uses[at].File == found.File && file.Uses[at].Line >= found.Line; at-- {
		if last := &file.Uses[at]; last.Place == found.Place && last.Import == imported && last.Name == name {
			if last.Text == "" {
				last.Text = text
			}
			return
		}
	}
	file.Uses = append(file.Uses, found)
}
