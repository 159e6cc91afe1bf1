//! Declared functions: the standard library, the extensions that kube-apiserver has, and its own.
//!
//! The list is that of expressions which are new to a server of release 1.36.

use std::{collections::HashMap, sync::LazyLock};

use crate::types::{Parameter, Type};

#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) is_member: bool,
    pub(crate) arguments: Vec<Type>,
    pub(crate) result: Type,
    /// Whether it has type parameters.
    pub(crate) is_generic: bool,
}

/// Overloads of a function, in the order in which they are tried.
pub(crate) fn overloads(function: &str) -> Option<&'static [Overload]> {
    static DECLARED: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
        let mut declared: HashMap<_, Vec<_>> = HashMap::new();
        let templates = TEMPLATES.iter().flat_map(|(types, line)| {
            types.iter().map(move |(short, type_)| {
                // Declarations live as long as the program.
                let line = line.replace("{short}", short).replace("{type}", type_);
                &*line.leak()
            })
        });
        let lines = [STANDARD, OPTIONALS, TEXT, KUBERNETES, AUTHORIZER];
        let lines = lines.into_iter().flat_map(str::lines).chain(templates);
        for (name, overload) in lines.filter_map(parse) {
            declared.entry(name).or_default().push(overload);
        }
        declared
    });
    DECLARED.get(function).map(Vec::as_slice)
}

/// A line `function id arguments... = result`; the identifiers of member functions begin with a dot.
fn parse(line: &'static str) -> Option<(&'static str, Overload)> {
    let (signature, result) = line.split_once(" = ")?;
    let mut words = signature.split_ascii_whitespace();
    let (function, id) = (words.next()?, words.next()?);
    let arguments: Vec<Type> = words.map(type_of).collect();
    let overload = Overload {
        id: id.trim_start_matches('.'),
        is_member: id.starts_with('.'),
        is_generic: arguments.iter().any(is_generic) || is_generic(&type_of(result)),
        arguments,
        result: type_of(result),
    };
    Some((function, overload))
}

fn is_generic(type_: &Type) -> bool {
    matches!(type_, Type::Parameter(_)) || type_.parameters().into_iter().any(is_generic)
}

fn type_of(word: &str) -> Type {
    let inner = |prefix: &str| word.strip_prefix(prefix)?.strip_suffix('>');
    if let Some(items) = inner("list<") {
        return Type::list(type_of(items));
    }
    if let Some((keys, values)) = inner("map<").and_then(|entry| entry.split_once(',')) {
        return Type::map(type_of(keys), type_of(values));
    }
    if let Some(value) = inner("optional<") {
        return Type::optional(type_of(value));
    }
    if let Some(value) = inner("type<") {
        return Type::Type(Some(type_of(value).into()));
    }
    match word {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "dyn" => Type::Dyn,
        "net.IP" => Type::Opaque("net.IP", Vec::new()),
        "net.CIDR" => Type::Opaque("net.CIDR", Vec::new()),
        name => match name.as_bytes() {
            [letter] => Type::Parameter(Parameter::Declared(char::from(*letter))),
            _ => Type::named(name),
        },
    }
}

const COMPARABLE: &[(&str, &str)] = &[
    ("int", "int"),
    ("uint", "uint"),
    ("double", "double"),
    ("bool", "bool"),
    ("duration", "duration"),
    ("timestamp", "timestamp"),
    ("string", "string"),
    ("bytes", "bytes"),
];
const SUMMABLE: &[(&str, &str)] = &[
    ("int", "int"),
    ("uint", "uint"),
    ("double", "double"),
    ("duration", "duration"),
];
/// Types that conversions return as they are.
const ORDERED: &[(&str, &str)] = &[
    ("bool", "bool bool"),
    ("int64", "int int"),
    ("int64_double", "int double"),
    ("int64_uint64", "int uint"),
    ("uint64", "uint uint"),
    ("uint64_double", "uint double"),
    ("uint64_int64", "uint int"),
    ("double", "double double"),
    ("double_int64", "double int"),
    ("double_uint64", "double uint"),
    ("string", "string string"),
    ("bytes", "bytes bytes"),
    ("timestamp", "timestamp timestamp"),
    ("duration", "duration duration"),
];

type Template = (&'static [(&'static str, &'static str)], &'static str);

const TEMPLATES: &[Template] = &[
    (ORDERED, "_<_ less_{short} {type} = bool"),
    (ORDERED, "_<=_ less_equals_{short} {type} = bool"),
    (ORDERED, "_>_ greater_{short} {type} = bool"),
    (ORDERED, "_>=_ greater_equals_{short} {type} = bool"),
    (
        COMPARABLE,
        "isSorted .list_{short}_is_sorted_bool list<{type}> = bool",
    ),
    (
        SUMMABLE,
        "sum .list_{short}_sum_{short} list<{type}> = {type}",
    ),
    (
        COMPARABLE,
        "max .list_{short}_max_{short} list<{type}> = {type}",
    ),
    (
        COMPARABLE,
        "min .list_{short}_min_{short} list<{type}> = {type}",
    ),
    (
        COMPARABLE,
        "sort .list_{short}_sort list<{type}> = list<{type}>",
    ),
    (
        COMPARABLE,
        "@sortByAssociatedKeys .list_{short}_sortByAssociatedKeys list<T> list<{type}> = list<T>",
    ),
];

const STANDARD: &str = "\
_?_:_ conditional bool A A = A
_&&_ logical_and bool bool = bool
_||_ logical_or bool bool = bool
!_ logical_not bool = bool
@not_strictly_false not_strictly_false bool = bool
_==_ equals A A = bool
_!=_ not_equals A A = bool
_+_ add_bytes bytes bytes = bytes
_+_ add_double double double = double
_+_ add_duration_duration duration duration = duration
_+_ add_duration_timestamp duration timestamp = timestamp
_+_ add_timestamp_duration timestamp duration = timestamp
_+_ add_int64 int int = int
_+_ add_list list<A> list<A> = list<A>
_+_ add_string string string = string
_+_ add_uint64 uint uint = uint
_/_ divide_double double double = double
_/_ divide_int64 int int = int
_/_ divide_uint64 uint uint = uint
_%_ modulo_int64 int int = int
_%_ modulo_uint64 uint uint = uint
_*_ multiply_double double double = double
_*_ multiply_int64 int int = int
_*_ multiply_uint64 uint uint = uint
-_ negate_double double = double
-_ negate_int64 int = int
_-_ subtract_double double double = double
_-_ subtract_duration_duration duration duration = duration
_-_ subtract_int64 int int = int
_-_ subtract_timestamp_duration timestamp duration = timestamp
_-_ subtract_timestamp_timestamp timestamp timestamp = duration
_-_ subtract_uint64 uint uint = uint
_[_] index_list list<A> int = A
_[_] index_map map<A,B> A = B
_[_] optional_list_index_int optional<list<V>> int = optional<V>
_[_] optional_map_index_value optional<map<K,V>> K = optional<V>
@in in_list A list<A> = bool
@in in_map A map<A,B> = bool
size size_bytes bytes = int
size .bytes_size bytes = int
size size_list list<A> = int
size .list_size list<A> = int
size size_map map<A,B> = int
size .map_size map<A,B> = int
size size_string string = int
size .string_size string = int
type type A = type<A>
bool bool_to_bool bool = bool
bool string_to_bool string = bool
bytes bytes_to_bytes bytes = bytes
bytes string_to_bytes string = bytes
double double_to_double double = double
double int64_to_double int = double
double string_to_double string = double
double uint64_to_double uint = double
duration duration_to_duration duration = duration
duration int64_to_duration int = duration
duration string_to_duration string = duration
dyn to_dyn A = dyn
int int64_to_int64 int = int
int double_to_int64 double = int
int duration_to_int64 duration = int
int string_to_int64 string = int
int timestamp_to_int64 timestamp = int
int uint64_to_int64 uint = int
string string_to_string string = string
string bool_to_string bool = string
string bytes_to_string bytes = string
string double_to_string double = string
string duration_to_string duration = string
string int64_to_string int = string
string timestamp_to_string timestamp = string
string uint64_to_string uint = string
string ip_to_string net.IP = string
string cidr_to_string net.CIDR = string
timestamp timestamp_to_timestamp timestamp = timestamp
timestamp int64_to_timestamp int = timestamp
timestamp string_to_timestamp string = timestamp
uint uint64_to_uint64 uint = uint
uint double_to_uint64 double = uint
uint int64_to_uint64 int = uint
uint string_to_uint64 string = uint
contains .contains_string string string = bool
endsWith .ends_with_string string string = bool
startsWith .starts_with_string string string = bool
matches matches string string = bool
matches .matches_string string string = bool
getFullYear .timestamp_to_year timestamp = int
getFullYear .timestamp_to_year_with_tz timestamp string = int
getMonth .timestamp_to_month timestamp = int
getMonth .timestamp_to_month_with_tz timestamp string = int
getDayOfYear .timestamp_to_day_of_year timestamp = int
getDayOfYear .timestamp_to_day_of_year_with_tz timestamp string = int
getDayOfMonth .timestamp_to_day_of_month timestamp = int
getDayOfMonth .timestamp_to_day_of_month_with_tz timestamp string = int
getDate .timestamp_to_day_of_month_1_based timestamp = int
getDate .timestamp_to_day_of_month_1_based_with_tz timestamp string = int
getDayOfWeek .timestamp_to_day_of_week timestamp = int
getDayOfWeek .timestamp_to_day_of_week_with_tz timestamp string = int
getHours .timestamp_to_hours timestamp = int
getHours .timestamp_to_hours_with_tz timestamp string = int
getHours .duration_to_hours duration = int
getMinutes .timestamp_to_minutes timestamp = int
getMinutes .timestamp_to_minutes_with_tz timestamp string = int
getMinutes .duration_to_minutes duration = int
getSeconds .timestamp_to_seconds timestamp = int
getSeconds .timestamp_to_seconds_tz timestamp string = int
getSeconds .duration_to_seconds duration = int
getMilliseconds .timestamp_to_milliseconds timestamp = int
getMilliseconds .timestamp_to_milliseconds_with_tz timestamp string = int
getMilliseconds .duration_to_milliseconds duration = int";

const OPTIONALS: &str = "\
optional.of optional_of V = optional<V>
optional.ofNonZeroValue optional_ofNonZeroValue V = optional<V>
optional.none optional_none = optional<V>
value .optional_value optional<V> = V
hasValue .optional_hasValue optional<V> = bool
or .optional_or_optional optional<V> optional<V> = optional<V>
orValue .optional_orValue_value optional<V> V = V
_?._ select_optional_field dyn string = optional<V>
_[?_] list_optindex_optional_int list<V> int = optional<V>
_[?_] optional_list_optindex_optional_int optional<list<V>> int = optional<V>
_[?_] map_optindex_optional_value map<K,V> K = optional<V>
_[?_] optional_map_optindex_optional_value optional<map<K,V>> K = optional<V>
last .list_last list<V> = optional<V>
first .list_first list<V> = optional<V>
optional.unwrap optional_unwrap list<optional<V>> = list<V>
unwrapOpt .optional_unwrapOpt list<optional<V>> = list<V>
cel.@mapInsert @mapInsert_map_key_value map<K,V> K V = map<K,V>
cel.@mapInsert @mapInsert_map_map map<K,V> map<K,V> = map<K,V>";

/// Strings, lists and sets.
const TEXT: &str = "\
charAt .string_char_at_int string int = string
indexOf .string_index_of_string string string = int
indexOf .string_index_of_string_int string string int = int
lastIndexOf .string_last_index_of_string string string = int
lastIndexOf .string_last_index_of_string_int string string int = int
lowerAscii .string_lower_ascii string = string
replace .string_replace_string_string string string string = string
replace .string_replace_string_string_int string string string int = string
split .string_split_string string string = list<string>
split .string_split_string_int string string int = list<string>
substring .string_substring_int string int = string
substring .string_substring_int_int string int int = string
trim .string_trim string = string
upperAscii .string_upper_ascii string = string
format .string_format string list<dyn> = string
strings.quote strings_quote string = string
join .list_join list<string> = string
join .list_join_string list<string> string = string
slice .list_slice list<T> int int = list<T>
flatten .list_flatten list<list<T>> = list<T>
flatten .list_flatten_int list<dyn> int = list<dyn>
lists.range lists_range int = list<int>
reverse .list_reverse list<T> = list<T>
distinct .list_distinct list<T> = list<T>
sets.contains list_sets_contains_list list<T> list<T> = bool
sets.equivalent list_sets_equivalent_list list<T> list<T> = bool
sets.intersects list_sets_intersects_list list<T> list<T> = bool";

const KUBERNETES: &str = "\
indexOf .list_a_index_of_int list<A> A = int
lastIndexOf .list_a_last_index_of_int list<A> A = int
url string_to_url string = kubernetes.URL
getScheme .url_get_scheme kubernetes.URL = string
getHost .url_get_host kubernetes.URL = string
getHostname .url_get_hostname kubernetes.URL = string
getPort .url_get_port kubernetes.URL = string
getEscapedPath .url_get_escaped_path kubernetes.URL = string
getQuery .url_get_query kubernetes.URL = map<string,list<string>>
isURL is_url_string string = bool
find .string_find_string string string = string
findAll .string_find_all_string string string = list<string>
findAll .string_find_all_string_int string string int = list<string>
quantity string_to_quantity string = kubernetes.Quantity
isQuantity is_quantity_string string = bool
sign quantity_sign kubernetes.Quantity = int
isGreaterThan .quantity_is_greater_than kubernetes.Quantity kubernetes.Quantity = bool
isLessThan .quantity_is_less_than kubernetes.Quantity kubernetes.Quantity = bool
compareTo .quantity_compare_to kubernetes.Quantity kubernetes.Quantity = int
asApproximateFloat .quantity_get_float kubernetes.Quantity = double
asInteger .quantity_get_int kubernetes.Quantity = int
isInteger .quantity_is_integer kubernetes.Quantity = bool
add .quantity_add kubernetes.Quantity kubernetes.Quantity = kubernetes.Quantity
add .quantity_add_int kubernetes.Quantity int = kubernetes.Quantity
sub .quantity_sub kubernetes.Quantity kubernetes.Quantity = kubernetes.Quantity
sub .quantity_sub_int kubernetes.Quantity int = kubernetes.Quantity
ip string_to_ip string = net.IP
ip .cidr_ip net.CIDR = net.IP
family .ip_family net.IP = int
ip.isCanonical ip_is_canonical string = bool
isUnspecified .ip_is_unspecified net.IP = bool
isLoopback .ip_is_loopback net.IP = bool
isLinkLocalMulticast .ip_is_link_local_multicast net.IP = bool
isLinkLocalUnicast .ip_is_link_local_unicast net.IP = bool
isGlobalUnicast .ip_is_global_unicast net.IP = bool
isIP is_ip string = bool
cidr string_to_cidr string = net.CIDR
containsIP .cidr_contains_ip_string net.CIDR string = bool
containsIP .cidr_contains_ip_ip net.CIDR net.IP = bool
containsCIDR .cidr_contains_cidr_string net.CIDR string = bool
containsCIDR .cidr_contains_cidr net.CIDR net.CIDR = bool
prefixLength .cidr_prefix_length net.CIDR = int
masked .cidr_masked net.CIDR = net.CIDR
isCIDR is_cidr string = bool
validate .format-validate kubernetes.NamedFormat string = optional<list<string>>
format.named format-named string = optional<kubernetes.NamedFormat>
semver string_to_semver string = kubernetes.Semver
semver string_bool_to_semver string bool = kubernetes.Semver
isSemver is_semver_string string = bool
isSemver is_semver_string_bool string bool = bool
isGreaterThan .semver_is_greater_than kubernetes.Semver kubernetes.Semver = bool
isLessThan .semver_is_less_than kubernetes.Semver kubernetes.Semver = bool
compareTo .semver_compare_to kubernetes.Semver kubernetes.Semver = int
major .semver_major kubernetes.Semver = int
minor .semver_minor kubernetes.Semver = int
patch .semver_patch kubernetes.Semver = int
format.dns1123Label format.dns1123Label = kubernetes.NamedFormat
format.dns1123Subdomain format.dns1123Subdomain = kubernetes.NamedFormat
format.dns1035Label format.dns1035Label = kubernetes.NamedFormat
format.qualifiedName format.qualifiedName = kubernetes.NamedFormat
format.dns1123LabelPrefix format.dns1123LabelPrefix = kubernetes.NamedFormat
format.dns1123SubdomainPrefix format.dns1123SubdomainPrefix = kubernetes.NamedFormat
format.dns1035LabelPrefix format.dns1035LabelPrefix = kubernetes.NamedFormat
format.labelValue format.labelValue = kubernetes.NamedFormat
format.uri format.uri = kubernetes.NamedFormat
format.uuid format.uuid = kubernetes.NamedFormat
format.byte format.byte = kubernetes.NamedFormat
format.date format.date = kubernetes.NamedFormat
format.datetime format.datetime = kubernetes.NamedFormat";

/// Functions of authorizers. Rules of schemas have no authorizer, but know its functions.
const AUTHORIZER: &str = "\
path .authorizer_path kubernetes.authorization.Authorizer string = kubernetes.authorization.PathCheck
group .authorizer_group kubernetes.authorization.Authorizer string = kubernetes.authorization.GroupCheck
serviceAccount .authorizer_serviceaccount kubernetes.authorization.Authorizer string string = kubernetes.authorization.Authorizer
resource .groupcheck_resource kubernetes.authorization.GroupCheck string = kubernetes.authorization.ResourceCheck
subresource .resourcecheck_subresource kubernetes.authorization.ResourceCheck string = kubernetes.authorization.ResourceCheck
namespace .resourcecheck_namespace kubernetes.authorization.ResourceCheck string = kubernetes.authorization.ResourceCheck
name .resourcecheck_name kubernetes.authorization.ResourceCheck string = kubernetes.authorization.ResourceCheck
fieldSelector .authorizer_fieldselector kubernetes.authorization.ResourceCheck string = kubernetes.authorization.ResourceCheck
labelSelector .authorizer_labelselector kubernetes.authorization.ResourceCheck string = kubernetes.authorization.ResourceCheck
check .pathcheck_check kubernetes.authorization.PathCheck string = kubernetes.authorization.Decision
check .resourcecheck_check kubernetes.authorization.ResourceCheck string = kubernetes.authorization.Decision
errored .decision_errored kubernetes.authorization.Decision = bool
error .decision_error kubernetes.authorization.Decision = string
allowed .decision_allowed kubernetes.authorization.Decision = bool
reason .decision_reason kubernetes.authorization.Decision = string";
