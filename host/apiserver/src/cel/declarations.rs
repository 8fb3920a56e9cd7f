//! The available functions with their types: those of CEL, and of the Kubernetes libraries that are implemented here. A
//! call of another function is refused when the definition is created.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::ast::{Expr, ExprKind};
use super::types::Type;

/// One signature of a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) target: Option<Type>,
    pub(super) args: Vec<Type>,
    pub(super) answer: Type,
}

/// One function a line, with its overloads: an optional receiver before the dot, the arguments, the result.
const DECLARED: &str = "
!_ (bool)bool
-_ (int)int (double)double
_?_:_ (bool,A,A)A
_==_ (A,A)bool
_!=_ (A,A)bool
_<_ (bool,bool)bool (int,int)bool (int,double)bool (int,uint)bool (uint,uint)bool (uint,double)bool (uint,int)bool \
(double,double)bool (double,int)bool (double,uint)bool (string,string)bool (bytes,bytes)bool \
(timestamp,timestamp)bool (duration,duration)bool
_+_ (int,int)int (uint,uint)uint (double,double)double (string,string)string (bytes,bytes)bytes \
(list<A>,list<A>)list<A> (duration,duration)duration (duration,timestamp)timestamp (timestamp,duration)timestamp
_-_ (int,int)int (uint,uint)uint (double,double)double (duration,duration)duration (timestamp,duration)timestamp \
(timestamp,timestamp)duration
_*_ (int,int)int (uint,uint)uint (double,double)double
_/_ (int,int)int (uint,uint)uint (double,double)double
_%_ (int,int)int (uint,uint)uint
@in (A,list<A>)bool (A,map<A,B>)bool
_[_] (list<A>,int)A (map<A,B>,A)B (optional<list<A>>,int)optional<A> (optional<map<A,B>>,A)optional<B>
_[?_] (list<A>,int)optional<A> (map<A,B>,A)optional<B> (optional<list<A>>,int)optional<A> \
(optional<map<A,B>>,A)optional<B>
size (string)int (bytes)int (list<A>)int (map<A,B>)int string.()int bytes.()int list<A>.()int map<A,B>.()int
dyn (A)dyn
type (A)type
bool (bool)bool (string)bool
int (int)int (uint)int (double)int (string)int (timestamp)int (duration)int
uint (uint)uint (int)uint (double)uint (string)uint
double (double)double (int)double (uint)double (string)double
string (string)string (bool)string (int)string (uint)string (double)string (bytes)string (timestamp)string \
(duration)string (net.IP)string (net.CIDR)string
bytes (bytes)bytes (string)bytes
timestamp (string)timestamp (timestamp)timestamp
duration (string)duration (duration)duration
getFullYear timestamp.()int
getMonth timestamp.()int
getDayOfYear timestamp.()int
getDayOfMonth timestamp.()int
getDate timestamp.()int
getDayOfWeek timestamp.()int
getHours timestamp.()int duration.()int
getMinutes timestamp.()int duration.()int
getSeconds timestamp.()int duration.()int
getMilliseconds timestamp.()int duration.()int
contains string.(string)bool
startsWith string.(string)bool
endsWith string.(string)bool
matches (string,string)bool string.(string)bool
optional.of (A)optional<A>
optional.ofNonZeroValue (A)optional<A>
optional.none ()optional<A>
hasValue optional<A>.()bool
value optional<A>.()A
or optional<A>.(optional<A>)optional<A>
orValue optional<A>.(A)A
charAt string.(int)string
indexOf string.(string)int string.(string,int)int list<A>.(A)int
lastIndexOf string.(string)int string.(string,int)int list<A>.(A)int
lowerAscii string.()string
upperAscii string.()string
replace string.(string,string)string string.(string,string,int)string
split string.(string)list<string> string.(string,int)list<string>
substring string.(int)string string.(int,int)string
trim string.()string
join list<string>.()string list<string>.(string)string
reverse list<A>.()list<A>
strings.quote (string)string
format string.(list<dyn>)string
find string.(string)string
findAll string.(string)list<string> string.(string,int)list<string>
isSorted list<A>.()bool
sum list<int>.()int list<uint>.()uint list<double>.()double list<duration>.()duration
min list<A>.()A
max list<A>.()A
slice list<A>.(int,int)list<A>
sort list<A>.()list<A>
flatten list<list<A>>.()list<A> list<dyn>.(int)list<dyn>
distinct list<A>.()list<A>
first list<A>.()optional<A>
last list<A>.()optional<A>
lists.range (int)list<int>
sets.contains (list<A>,list<A>)bool
sets.equivalent (list<A>,list<A>)bool
sets.intersects (list<A>,list<A>)bool
url (string)kubernetes.URL
isURL (string)bool
getScheme kubernetes.URL.()string
getHost kubernetes.URL.()string
getHostname kubernetes.URL.()string
getPort kubernetes.URL.()string
getEscapedPath kubernetes.URL.()string
getQuery kubernetes.URL.()map<string,list<string>>
ip (string)net.IP net.CIDR.()net.IP
isIP (string)bool
ip.isCanonical (string)bool
family net.IP.()int
isUnspecified net.IP.()bool
isLoopback net.IP.()bool
isLinkLocalMulticast net.IP.()bool
isLinkLocalUnicast net.IP.()bool
isGlobalUnicast net.IP.()bool
cidr (string)net.CIDR
isCIDR (string)bool
containsIP net.CIDR.(string)bool net.CIDR.(net.IP)bool
containsCIDR net.CIDR.(string)bool net.CIDR.(net.CIDR)bool
prefixLength net.CIDR.()int
masked net.CIDR.()net.CIDR
quantity (string)kubernetes.Quantity
isQuantity (string)bool
isInteger kubernetes.Quantity.()bool
asInteger kubernetes.Quantity.()int
asApproximateFloat kubernetes.Quantity.()double
sign kubernetes.Quantity.()int
add kubernetes.Quantity.(kubernetes.Quantity)kubernetes.Quantity kubernetes.Quantity.(int)kubernetes.Quantity
sub kubernetes.Quantity.(kubernetes.Quantity)kubernetes.Quantity kubernetes.Quantity.(int)kubernetes.Quantity
isGreaterThan kubernetes.Quantity.(kubernetes.Quantity)bool kubernetes.Semver.(kubernetes.Semver)bool
isLessThan kubernetes.Quantity.(kubernetes.Quantity)bool kubernetes.Semver.(kubernetes.Semver)bool
compareTo kubernetes.Quantity.(kubernetes.Quantity)int kubernetes.Semver.(kubernetes.Semver)int
semver (string)kubernetes.Semver (string,bool)kubernetes.Semver
isSemver (string)bool (string,bool)bool
major kubernetes.Semver.()int
minor kubernetes.Semver.()int
patch kubernetes.Semver.()int
format.named (string)optional<kubernetes.NamedFormat>
format.dns1123Label ()kubernetes.NamedFormat
format.dns1123Subdomain ()kubernetes.NamedFormat
format.dns1035Label ()kubernetes.NamedFormat
format.qualifiedName ()kubernetes.NamedFormat
format.dns1123LabelPrefix ()kubernetes.NamedFormat
format.dns1123SubdomainPrefix ()kubernetes.NamedFormat
format.dns1035LabelPrefix ()kubernetes.NamedFormat
format.labelValue ()kubernetes.NamedFormat
format.uri ()kubernetes.NamedFormat
format.uuid ()kubernetes.NamedFormat
format.byte ()kubernetes.NamedFormat
format.date ()kubernetes.NamedFormat
format.datetime ()kubernetes.NamedFormat
validate kubernetes.NamedFormat.(string)optional<list<string>>
";

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut found: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
    for line in DECLARED.lines() {
        let mut words = line.split_whitespace();
        if let Some(name) = words.next() {
            found.insert(name, words.filter_map(overload).collect());
        }
    }
    found
});

/// The overloads of a function. `None` for an unknown function.
pub(super) fn overloads(function: &str) -> Option<&'static [Overload]> {
    let name = if matches!(function, "_<=_" | "_>_" | "_>=_") { "_<_" } else { function };
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// Whether a name denotes a type. In CEL, types are values, too.
pub(super) fn is_type(name: &str) -> bool {
    matches!(name, "bool" | "int" | "uint" | "double" | "string" | "bytes" | "list" | "map" | "null_type" | "type")
}

/// The full name of a function if its receiver is the name of a package, such as `math.greatest`.
pub(super) fn package(target: &Expr, function: &str) -> Option<String> {
    let ExprKind::Ident(package) = &target.kind else { return None };
    let name = format!("{package}.{function}");
    FUNCTIONS.contains_key(name.as_str()).then_some(name)
}

/// All named functions.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    FUNCTIONS.keys().copied().filter(|name| !name.contains('_') && !name.starts_with('@')).collect()
}

fn overload(text: &'static str) -> Option<Overload> {
    let (target, rest) = text.split_once('(')?;
    let (args, answer) = rest.rsplit_once(')')?;
    let target = target.strip_suffix('.').map(read);
    Some(Overload { target, args: parts(args).into_iter().map(read).collect(), answer: read(answer) })
}

/// Splits at the commas that are not inside brackets.
fn parts(text: &'static str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                found.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    found.extend(text.get(start..).filter(|rest| !rest.is_empty()));
    found
}

fn read(text: &'static str) -> Type {
    let inside = |name: &str| text.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>');
    if let Some(item) = inside("list") {
        return Type::list(read(item));
    }
    if let Some(inner) = inside("optional") {
        return Type::optional(read(inner));
    }
    if let Some([key, value]) = inside("map").map(parts).as_deref() {
        return Type::Map(Box::new(read(key)), Box::new(read(value)));
    }
    match text {
        "dyn" => Type::Dyn,
        "A" => Type::Param('A'),
        "B" => Type::Param('B'),
        name => Type::Named(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_is_read() {
        for line in DECLARED.lines().filter(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            let name = words.next().expect("a name");
            let read = FUNCTIONS.get(name).map_or(0, Vec::len);
            assert_eq!(read, words.count(), "{name}");
        }
        let index = &FUNCTIONS["_[_]"][3];
        assert_eq!(index.args[0].to_string(), "optional_type(map(A, B))");
    }
}
