// Scanner reads Go sources for `windlass import`. It parses them, and neither type-checks, builds nor runs them.
//
// Standard input has the sources as JSON, because the caller has bounded what it reads. Standard output gets the facts.
// The program opens no file.
package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

type input struct {
	// Module is the module path of the project.
	Module string `json:"module"`
	// Imports are the import paths whose uses are reported. A path that ends with "/" stands for all paths below it.
	Imports []string `json:"imports"`
	Files   []struct {
		Path string `json:"path"`
		Text string `json:"text"`
	} `json:"files"`
}

// Place is a line of a source.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// Broken is a syntax error.
type Broken struct {
	Place
	Message string `json:"message"`
}

// Package is a folder with Go files.
type Package struct {
	Folder  string   `json:"folder"`
	Name    string   `json:"name"`
	Imports []string `json:"imports"`
	// Group and Version name the API that the package defines. They are empty if it defines none.
	Group   string `json:"group,omitempty"`
	Version string `json:"version,omitempty"`
}

// Marker is a comment that begins with +kubebuilder.
type Marker struct {
	Place
	Text string `json:"text"`
}

// Use is a use of a name of a reported import, or of something else that a plugin may not have.
type Use struct {
	Place
	Folder string `json:"folder"`
	// Import is the import path. Other uses have "manager" for a manager's methods, "options" for its options, "builder",
	// "go" and "state".
	Import string `json:"import"`
	Name   string `json:"name"`
	// Text is the first argument, if it is a constant text. For an option, it is the source of its value.
	Text string `json:"text,omitempty"`
}

// Watch is a kind that a builder names.
type Watch struct {
	Place
	// Role is the builder's method: For, Owns or Watches.
	Role string `json:"role"`
	// Import and Type name the Go type. Import is empty if the type could not be found.
	Import string `json:"import"`
	Type   string `json:"type"`
}

// Controller is a chain of calls that begins with NewControllerManagedBy.
type Controller struct {
	Place
	Folder   string `json:"folder"`
	Receiver string `json:"receiver"`
	Function string `json:"function"`
	Name     string `json:"name"`
	// Named reports a call of Named. If Name is empty then, it is not a constant.
	Named   bool    `json:"named"`
	Watches []Watch `json:"watches"`
}

// Import is an import that a piece of source needs.
type Import struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Dropped is a field that main.go cannot set.
type Dropped struct {
	Place
	Field string `json:"field"`
	Text  string `json:"text"`
}

// Setup is a call that sets up a controller, as Go source for another main.go.
type Setup struct {
	Place
	Folder string `json:"folder"`
	// Source is the call, with the manager named mgr. It is empty if it cannot be taken over; Original has it in any case.
	Source   string    `json:"source"`
	Original string    `json:"original"`
	Reason   string    `json:"reason,omitempty"`
	Imports  []Import  `json:"imports"`
	Dropped  []Dropped `json:"dropped"`
	// Type is the type of the receiver, and Import the package that it is from.
	Import string `json:"import"`
	Type   string `json:"type"`
	// Returns is "error", "none" or "other".
	Returns string `json:"returns"`
}

// Scheme is a call that adds types to a scheme.
type Scheme struct {
	Place
	Folder string `json:"folder"`
	Import Import `json:"import"`
	// Call is the function without the package, such as AddToScheme.
	Call string `json:"call"`
}

// TypeUse is a type of another package that a literal or a variable names.
type TypeUse struct {
	Folder string `json:"folder"`
	Import string `json:"import"`
	Name   string `json:"name"`
}

// Struct is a struct type. A reconciler is set up by its fields if no main package does it.
type Struct struct {
	Folder string   `json:"folder"`
	Name   string   `json:"name"`
	Fields []string `json:"fields"`
}

// Finalizer is a finalizer that the project adds or removes.
type Finalizer struct {
	Place
	// Name is empty if it is not a constant.
	Name string `json:"name"`
}

type output struct {
	Broken      []Broken     `json:"broken"`
	Packages    []Package    `json:"packages"`
	Markers     []Marker     `json:"markers"`
	Uses        []Use        `json:"uses"`
	Controllers []Controller `json:"controllers"`
	Setups      []Setup      `json:"setups"`
	Schemes     []Scheme     `json:"schemes"`
	Structs     []Struct     `json:"structs"`
	Finalizers  []Finalizer  `json:"finalizers"`
	TypeUses    []TypeUse    `json:"typeUses"`
}

const (
	controllerRuntime = "sigs.k8s.io/controller-runtime"
	// The most bytes of a source text that is passed on.
	textBytesMax = 4 << 10
)

// project is all sources, parsed.
type project struct {
	input
	output
	set   *token.FileSet
	files []*source
	// constants has the constant texts by folder and name.
	constants map[string]map[string]ast.Expr
	// names has the package names by folder.
	names map[string]string
	// results has the results of all functions.
	results map[functionName]*ast.FieldList
	// typeUses has the type uses that were found before.
	typeUses map[TypeUse]bool
	// aliases has the names of imports in the new main.go, by import path.
	aliases map[string]string
}

// functionName identifies a function. Receiver is empty if it is not a method.
type functionName struct{ folder, receiver, name string }

// source is one parsed file.
type source struct {
	*project
	path, folder, text string
	tree               *ast.File
	// imports has the import paths by local name.
	imports map[string]string
}

func main() {
	var all project
	if err := json.NewDecoder(os.Stdin).Decode(&all.input); err != nil {
		fail(err)
	}
	all.parse()
	if len(all.Broken) == 0 {
		all.scan()
	}
	if err := json.NewEncoder(os.Stdout).Encode(all.output); err != nil {
		fail(err)
	}
}

func fail(err error) {
	os.Stderr.WriteString(err.Error() + "\n")
	os.Exit(1)
}

func (all *project) parse() {
	all.set = token.NewFileSet()
	all.constants = map[string]map[string]ast.Expr{}
	all.names = map[string]string{}
	all.results = map[functionName]*ast.FieldList{}
	all.typeUses = map[TypeUse]bool{}
	all.aliases = map[string]string{
		controllerRuntime: "ctrl", "fmt": "fmt", "os": "os",
		"k8s.io/apimachinery/pkg/runtime":      "runtime",
		"k8s.io/apimachinery/pkg/util/runtime": "utilruntime",
	}
	for _, file := range all.input.Files {
		tree, err := parser.ParseFile(all.set, file.Path, file.Text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			all.Broken = append(all.Broken, broken(file.Path, err))
			continue
		}
		folder := path.Dir(file.Path)
		all.files = append(all.files, &source{project: all, path: file.Path, folder: folder, text: file.Text, tree: tree})
		all.names[folder] = tree.Name.Name
		all.keepConstants(folder, tree)
	}
	for _, file := range all.files {
		file.readImports()
	}
	for _, file := range all.files {
		for _, declaration := range file.tree.Decls {
			if it, is := declaration.(*ast.FuncDecl); is {
				all.results[functionName{file.folder, file.receiver(it), it.Name.Name}] = it.Type.Results
			}
		}
	}
}

// receiver returns the name of the type of which a function is a method; empty if it is none.
func (file *source) receiver(of *ast.FuncDecl) string {
	if of.Recv == nil || len(of.Recv.List) != 1 {
		return ""
	}
	_, name := file.named(of.Recv.List[0].Type)
	return name
}

func broken(file string, err error) Broken {
	found := Broken{Place: Place{File: file}, Message: err.Error()}
	if list, is := err.(scanner.ErrorList); is && len(list) > 0 {
		found.Line, found.Message = list[0].Pos.Line, list[0].Msg
	}
	return found
}

func (all *project) keepConstants(folder string, tree *ast.File) {
	if all.constants[folder] == nil {
		all.constants[folder] = map[string]ast.Expr{}
	}
	for _, declaration := range tree.Decls {
		general, is := declaration.(*ast.GenDecl)
		if !is || general.Tok != token.CONST {
			continue
		}
		for _, spec := range general.Specs {
			values := spec.(*ast.ValueSpec)
			for at, name := range values.Names {
				if at < len(values.Values) {
					all.constants[folder][name.Name] = values.Values[at]
				}
			}
		}
	}
}

func (file *source) readImports() {
	file.imports = map[string]string{}
	for _, spec := range file.tree.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := file.defaultName(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name != "_" && name != "." {
			file.imports[name] = imported
		}
	}
}

// defaultName guesses the name of an imported package. It is certain for packages of the project.
func (file *source) defaultName(imported string) string {
	if folder, is := file.folderOf(imported); is && file.names[folder] != "" {
		return file.names[folder]
	}
	if imported == controllerRuntime {
		return "controllerruntime"
	}
	name := path.Base(imported)
	if isMajorVersion(name) && path.Dir(imported) != "." && !strings.HasPrefix(imported, "k8s.io/") {
		name = path.Base(path.Dir(imported))
	}
	return strings.TrimSuffix(strings.TrimPrefix(name, "go-"), ".go")
}

func isMajorVersion(name string) bool {
	number, is := strings.CutPrefix(name, "v")
	_, err := strconv.Atoi(number)
	return is && err == nil
}

// folderOf returns the folder of a package of the project.
func (all *project) folderOf(imported string) (string, bool) {
	if imported == all.Module {
		return ".", true
	}
	return strings.CutPrefix(imported, all.Module+"/")
}

func (all *project) importOf(folder string) string {
	if folder == "." {
		return all.Module
	}
	return all.Module + "/" + folder
}

func (all *project) scan() {
	packages := map[string]*Package{}
	for _, file := range all.files {
		it := packages[file.folder]
		if it == nil {
			it = &Package{Folder: file.folder, Name: file.tree.Name.Name}
			packages[file.folder] = it
		}
		for _, spec := range file.tree.Imports {
			if imported, err := strconv.Unquote(spec.Path.Value); err == nil && !slices.Contains(it.Imports, imported) {
				it.Imports = append(it.Imports, imported)
			}
		}
		file.readMarkers(it)
		file.readAPI(it)
		file.readDeclarations()
		file.readUses()
	}
	for _, file := range all.files {
		if it := packages[file.folder]; it != nil {
			slices.Sort(it.Imports)
			all.Packages = append(all.Packages, *it)
			delete(packages, file.folder)
		}
	}
}

func (file *source) place(at token.Pos) Place { return Place{file.path, file.set.Position(at).Line} }

// readMarkers keeps the markers of rights and webhooks, and the API group of a package.
func (file *source) readMarkers(of *Package) {
	for _, group := range file.tree.Comments {
		for _, comment := range group.List {
			text := strings.TrimSpace(strings.TrimPrefix(comment.Text, "//"))
			if name, is := strings.CutPrefix(text, "+groupName="); is {
				of.Group = strings.TrimSpace(name)
			}
			if strings.HasPrefix(text, "+kubebuilder:rbac:") || strings.HasPrefix(text, "+kubebuilder:webhook:") {
				file.Markers = append(file.Markers, Marker{file.place(comment.Pos()), bounded(text)})
			}
		}
	}
}

// readAPI keeps the group and version of a schema.GroupVersion at the top of a package.
func (file *source) readAPI(of *Package) {
	for _, declaration := range file.tree.Decls {
		general, is := declaration.(*ast.GenDecl)
		if !is || general.Tok != token.VAR {
			continue
		}
		for _, spec := range general.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				literal, is := value.(*ast.CompositeLit)
				if !is {
					continue
				}
				if imported, name := file.named(literal.Type); name != "GroupVersion" || !strings.HasSuffix(imported, "runtime/schema") {
					continue
				}
				for _, element := range literal.Elts {
					field, is := element.(*ast.KeyValueExpr)
					if !is {
						continue
					}
					text, is := file.constant(field.Value, 0)
					if key, isName := field.Key.(*ast.Ident); is && isName {
						switch key.Name {
						case "Group":
							of.Group = text
						case "Version":
							of.Version = text
						}
					}
				}
			}
		}
	}
}

// named returns the import path and the name of a type or function. The import path of this package's own is the
// project's.
func (file *source) named(expression ast.Expr) (imported, name string) {
	switch it := expression.(type) {
	case *ast.Ident:
		return file.importOf(file.folder), it.Name
	case *ast.StarExpr:
		return file.named(it.X)
	case *ast.ParenExpr:
		return file.named(it.X)
	case *ast.IndexExpr:
		return file.named(it.X)
	case *ast.SelectorExpr:
		if of, is := it.X.(*ast.Ident); is && file.imports[of.Name] != "" {
			return file.imports[of.Name], it.Sel.Name
		}
	}
	return "", ""
}

// The most constants that lead to a text. Constants may refer to each other in a circle.
const constantsDepthMax = 8

// constant returns the value of a constant text.
func (file *source) constant(expression ast.Expr, depth int) (string, bool) {
	if depth > constantsDepthMax {
		return "", false
	}
	switch it := expression.(type) {
	case *ast.BasicLit:
		if it.Kind == token.STRING {
			text, err := strconv.Unquote(it.Value)
			return bounded(text), err == nil
		}
	case *ast.ParenExpr:
		return file.constant(it.X, depth+1)
	case *ast.BinaryExpr:
		left, isLeft := file.constant(it.X, depth+1)
		right, isRight := file.constant(it.Y, depth+1)
		if it.Op == token.ADD && isLeft && isRight {
			return bounded(left + right), true
		}
	case *ast.Ident:
		if value := file.constants[file.folder][it.Name]; value != nil {
			return file.constant(value, depth+1)
		}
	case *ast.SelectorExpr:
		of, is := it.X.(*ast.Ident)
		if !is {
			return "", false
		}
		folder, isOurs := file.folderOf(file.imports[of.Name])
		if value := file.constants[folder][it.Sel.Name]; isOurs && value != nil {
			other := &source{project: file.project, folder: folder, imports: map[string]string{}}
			return other.constant(value, depth+1)
		}
	}
	return "", false
}

func bounded(text string) string {
	if len(text) > textBytesMax {
		return text[:textBytesMax]
	}
	return text
}

// sourceOf returns the text between two positions.
func (file *source) sourceOf(node ast.Node) string {
	from, to := file.set.Position(node.Pos()).Offset, file.set.Position(node.End()).Offset
	return bounded(file.text[from:to])
}
