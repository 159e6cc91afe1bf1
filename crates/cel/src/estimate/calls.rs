//! Estimated cost of calls.

use super::{Argument, Estimator, Range, amount::times};
use crate::{
    ast::{Expr, Kind, Literal},
    types::Type,
};

/// Cost of looking at a character.
const PER_CHARACTER: f64 = 0.1;
/// Cost of a character of a pattern.
const PER_PATTERN_CHARACTER: f64 = 0.25;
/// Length of the longest pattern of a named format.
const FORMAT_PATTERN: f64 = 128.0;

const NOMINAL: Range = Range::fixed(1);

/// Cost of a call without its arguments, and the size of its result.
struct Call {
    cost: Range,
    size: Option<Range>,
}

impl Call {
    fn of(cost: Range) -> Self {
        Self { cost, size: None }
    }

    fn sized(cost: Range, size: Range) -> Self {
        Self {
            cost,
            size: Some(size),
        }
    }

    /// A function that makes a list of a size.
    fn list(factor: f64, size: Range) -> Self {
        let cost = size.times(factor).add(NOMINAL).add(super::LIST);
        Self::sized(cost, size)
    }
}

impl<'e> Estimator<'e> {
    pub(super) fn call(
        &mut self,
        call: &'e Expr,
        target: Option<&'e Expr>,
        function: &str,
        arguments: &'e [Expr],
    ) -> Range {
        if let ("dyn", [argument]) = (function, arguments) {
            let cost = self.cost(argument);
            self.copy_sizes(call.id, argument);
            return NOMINAL.add(cost);
        }
        let mut costs = Vec::with_capacity(arguments.len());
        let mut known = Vec::with_capacity(arguments.len());
        for argument in arguments {
            costs.push(self.cost(argument));
            known.push(self.argument(argument));
        }
        let checked = self.checked;
        let overloads = checked.overloads(call.id);
        if overloads.is_empty() {
            return Range::ZERO;
        }
        let mut sum = Range::ZERO;
        let target = target.map(|target| {
            sum = self.cost(target);
            self.argument(target)
        });
        let mut cost = Range::NONE;
        let mut size: Option<Range> = None;
        for overload in overloads {
            let estimated =
                self.overload(call, function, overload, target.as_ref(), &known, &costs);
            cost = cost.union(estimated.cost);
            if let Some(result) = estimated.size {
                size = Some(size.map_or(result, |size| size.union(result)));
            }
            let step = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(list)) = (step, arguments.first()) {
                size = self.entries_of(list).map(|entries| entries.values);
                let mut path = self.path(list);
                path.push(step.to_owned());
                self.paths.insert(call.id, path);
            }
            if size.is_none() {
                size = self.size(call);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(call.id, size);
        }
        sum.add(cost)
    }

    /// The cost of one overload, with that of the arguments.
    fn overload(
        &mut self,
        call: &'e Expr,
        function: &str,
        overload: &str,
        target: Option<&Argument<'e>>,
        arguments: &[Argument<'e>],
        costs: &[Range],
    ) -> Call {
        let all = costs.iter().fold(Range::ZERO, |sum, cost| sum.add(*cost));
        let found = of_list(overload, target, arguments)
            .or_else(|| self.of_kubernetes(function, overload, target, arguments));
        if let Some(found) = found {
            return Call {
                cost: found.cost.add(all),
                size: found.size,
            };
        }
        match (overload, costs, arguments) {
            ("logical_or" | "logical_and", [left, right], _) => {
                return Call::of(Range::new(left.min, left.add(*right).max));
            }
            ("conditional", [condition, yes, no], [_, yes_value, no_value]) => {
                let size = unknown(yes_value).union(unknown(no_value));
                let entries = self
                    .entries_of(yes_value.expression)
                    .zip(self.entries_of(no_value.expression));
                if let Some((one, other)) = entries {
                    self.join_entries(call, one, other);
                }
                return Call::sized(condition.add(yes.union(*no)), size);
            }
            _ => {}
        }
        let standard = self.of_standard(call, overload, target, arguments);
        let found = standard.unwrap_or(Call::of(NOMINAL));
        Call {
            cost: found.cost.add(all),
            size: found.size,
        }
    }

    fn join_entries(&mut self, call: &Expr, one: super::Entries, other: super::Entries) {
        let joined = super::Entries {
            is_list: one.is_list,
            keys: one.keys.union(other.keys),
            values: one.values.union(other.values),
        };
        self.entries.insert(call.id, joined);
    }

    fn of_standard(
        &mut self,
        call: &Expr,
        overload: &str,
        target: Option<&Argument<'e>>,
        arguments: &[Argument<'e>],
    ) -> Option<Call> {
        Some(match (overload, target, arguments) {
            ("string_format", Some(target), _) => Call::of(unknown(target).times(PER_CHARACTER)),
            ("string_to_bytes", _, [argument]) => {
                let size = unknown(argument);
                let result = Range::new(size.min, size.max.wrapping_mul(4));
                Call::sized(size.times(PER_CHARACTER), result)
            }
            ("bytes_to_string", _, [argument]) => {
                let size = unknown(argument);
                Call::sized(
                    size.times(PER_CHARACTER),
                    Range::new(size.min / 4, size.max),
                )
            }
            ("strings_quote", _, [argument]) => {
                let size = unknown(argument);
                let most = size.max.wrapping_mul(2).wrapping_add(2);
                Call::sized(
                    size.times(PER_CHARACTER),
                    Range::new(size.min.wrapping_add(2), most),
                )
            }
            ("starts_with_string" | "ends_with_string", _, [argument]) => {
                Call::of(unknown(argument).times(PER_CHARACTER))
            }
            ("in_list", _, [_, list]) => Call::of(unknown(list).times(1.0)),
            ("matches_string", Some(target), [pattern]) => {
                let text = unknown(target).add(NOMINAL).times(PER_CHARACTER);
                let pattern = unknown(pattern).times(PER_PATTERN_CHARACTER);
                Call::of(text.multiply(pattern))
            }
            ("contains_string", Some(target), [part]) => {
                let text = unknown(target).times(PER_CHARACTER);
                Call::of(text.multiply(unknown(part).times(PER_CHARACTER)))
            }
            ("add_string" | "add_bytes" | "add_list", _, [one, other]) => {
                let size = unknown(one).add(unknown(other));
                let entries = self
                    .entries_of(one.expression)
                    .zip(self.entries_of(other.expression));
                if let Some((one, other)) = entries {
                    self.join_entries(call, one, other);
                }
                let cost = match overload {
                    "add_list" => NOMINAL,
                    _ => size.times(PER_CHARACTER),
                };
                Call::sized(cost, size)
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [one, other],
            ) => {
                let most = unknown(one).max.min(unknown(other).max);
                let least = u64::from(most > 0);
                Call::of(Range::new(least, most).times(PER_CHARACTER))
            }
            _ => return None,
        })
    }

    fn of_kubernetes(
        &mut self,
        function: &str,
        overload: &str,
        target: Option<&Argument<'e>>,
        arguments: &[Argument<'e>],
    ) -> Option<Call> {
        let first = arguments.first();
        let characters = |argument: &Argument<'_>| unknown(argument).times(PER_CHARACTER);
        Some(match function {
            "check" => Call::of(Range::fixed(350_000)),
            "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace"
            | "name" | "allowed" | "reason" | "error" | "errored" => Call::of(NOMINAL),
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let target = target?;
                let Some((items, size)) = self.items(target) else {
                    return Some(Call::of(characters(target)));
                };
                let mut each = NOMINAL;
                if matches!(items, Type::String | Type::Bytes) {
                    each = each.add(size.times(PER_CHARACTER));
                }
                Call::of(unknown(target).multiply(each))
            }
            "url" if arguments.len() == 1 => {
                let size = unknown(first?);
                Call::sized(size.times(PER_CHARACTER), size)
            }
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let size = unknown(target?);
                Call::sized(size.times(PER_CHARACTER), size)
            }
            "replace" => match (target, arguments) {
                (Some(target), [old, new, ..]) => {
                    replace(unknown(target), unknown(old), unknown(new))
                }
                _ => return None,
            },
            "split" => {
                let size = unknown(target?);
                let limit = arguments.get(1).and_then(literal_int);
                let most = limit.map_or(size.max, i64::cast_unsigned);
                Call::sized(size.times(2.0 * PER_CHARACTER), Range::new(0, most))
            }
            "join" => {
                let target = target?;
                let count = unknown(target);
                let mut size = match self.items(target) {
                    Some((_, each)) => count.multiply(each),
                    None => Range::ZERO,
                };
                if let Some(separator) = first {
                    let between =
                        Range::new(count.min.saturating_sub(1), count.max.saturating_sub(1));
                    size = size.add(unknown(separator).multiply(between));
                }
                Call::sized(size.times(PER_CHARACTER), size)
            }
            "find" | "findAll" => {
                let size = unknown(target?);
                let text = size.add(NOMINAL).times(PER_CHARACTER);
                let pattern = unknown(first?).times(PER_PATTERN_CHARACTER);
                Call::sized(text.multiply(pattern), Range::new(0, size.max))
            }
            "ip" | "cidr" | "isIP" | "isCIDR" | "ip.isCanonical" | "containsIP"
            | "containsCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" | "validate" => {
                return of_parsed(function, overload, first?);
            }
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery" => Call::of(NOMINAL),
            "_==_" => return equality(arguments),
            _ => return None,
        })
    }

    /// Type and size of the items of a list.
    fn items(&self, list: &Argument<'_>) -> Option<(Type, Range)> {
        let items = list
            .type_
            .parameters()
            .first()
            .map(|type_| (*type_).clone())?;
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push("@items".to_owned());
        }
        let size = self.size_at(&path).unwrap_or(Range::UNKNOWN);
        Some((items, size))
    }
}

fn unknown(argument: &Argument<'_>) -> Range {
    argument.size.unwrap_or(Range::UNKNOWN)
}

fn literal_int(argument: &Argument<'_>) -> Option<i64> {
    match &argument.expression.kind {
        Kind::Literal(Literal::Int(number)) => Some(*number),
        _ => None,
    }
}

fn int_of(argument: &Argument<'_>, otherwise: u64) -> u64 {
    match literal_int(argument).map(u64::try_from) {
        Some(Ok(number)) => number,
        Some(Err(_)) => 0,
        None => otherwise,
    }
}

fn replace(size: Range, old: Range, new: Range) -> Call {
    let (mut count, mut kept) = (Range::ZERO, Range::ZERO);
    let ceiling = |size: u64, by: u64| ceiling_of_division(size, by);
    if old.min == 0 {
        count.max = size.max.saturating_add(1);
        kept.max = size.max;
    } else if new.max <= old.min {
        kept.max = size.max;
    } else {
        count.max = ceiling(size.max, old.min);
    }
    if old.max == 0 {
        count.min = size.min.saturating_add(1);
        kept.min = size.min;
    } else if old.max <= new.min {
        kept.min = size.min;
    } else {
        count.min = ceiling(size.min, old.max);
    }
    let result = count.multiply(new).add(kept);
    Call::sized(size.times(2.0 * PER_CHARACTER), result)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as the server computes it"
)]
fn ceiling_of_division(size: u64, by: u64) -> u64 {
    (size as f64 / by as f64).ceil() as u64
}

fn equality(arguments: &[Argument<'_>]) -> Option<Call> {
    let [one, other] = arguments else { return None };
    if one.type_ != other.type_ {
        return None;
    }
    match &one.type_ {
        Type::Opaque("net.IP" | "net.CIDR", _) => Some(Call::of(NOMINAL)),
        Type::Struct(object) => match &*object.name {
            "kubernetes.Quantity" | "kubernetes.Semver" => Some(Call::of(NOMINAL)),
            "kubernetes.NamedFormat" => Some(Call::of(Range::new(1, 64).times(PER_CHARACTER))),
            "kubernetes.URL" => {
                let most = other.size.map_or(1, |size| size.max);
                Some(Call::of(Range::new(1, times(most, PER_CHARACTER))))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Functions of lists and sets.
fn of_list(
    overload: &str,
    target: Option<&Argument<'_>>,
    arguments: &[Argument<'_>],
) -> Option<Call> {
    let square = |factor: f64, size: Range| Call::list(factor, size.multiply(size));
    Some(match (overload, target, arguments) {
        ("list_slice", Some(target), [start, end]) => {
            let size = unknown(target);
            let end = int_of(end, size.max);
            Call::list(1.0, Range::fixed(end.wrapping_sub(int_of(start, 0))))
        }
        ("lists_range", None, [end]) => Call::list(1.0, Range::fixed(int_of(end, u64::MAX))),
        ("list_reverse" | "list_flatten", Some(target), []) => Call::list(1.0, unknown(target)),
        #[expect(clippy::cast_precision_loss, reason = "as the server computes it")]
        ("list_flatten_int", Some(target), [depth]) => {
            Call::list(int_of(depth, u64::MAX) as f64, unknown(target))
        }
        ("list_distinct", Some(target), []) => square(2.0, unknown(target)),
        (
            "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list",
            _,
            [one, other],
        ) => {
            let factor = match overload {
                "list_sets_equivalent_list" => 2.0,
                _ => 1.0,
            };
            let product = unknown(one).multiply(unknown(other));
            Call::of(product.times(factor).add(NOMINAL))
        }
        (sort, Some(target), arguments) if sort.starts_with("list_") => {
            let compared = match (sort.strip_suffix("_sort"), arguments) {
                (Some(_), []) => target,
                (None, [keys]) if sort.ends_with("_sortByAssociatedKeys") => keys,
                _ => return None,
            };
            let is_text = ["list_string_", "list_bytes_"]
                .iter()
                .any(|prefix| sort.starts_with(prefix));
            let factor = if is_text { 2.0 + PER_CHARACTER } else { 2.0 };
            square(factor, unknown(compared))
        }
        _ => return None,
    })
}

/// Functions that parse a string.
fn of_parsed(function: &str, overload: &str, first: &Argument<'_>) -> Option<Call> {
    let characters = |argument: &Argument<'_>| unknown(argument).times(PER_CHARACTER);
    Some(match function {
        "ip" if overload == "cidr_ip" => Call::of(NOMINAL),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            Call::of(characters(first))
        }
        "ip.isCanonical" => Call::of(unknown(first).times(2.0 * PER_CHARACTER)),
        "containsIP" | "containsCIDR" => {
            let bytes = Range::new(4, 16);
            let mut cost = bytes.add(bytes).times(PER_CHARACTER);
            if function == "containsCIDR" {
                cost = cost.add(bytes.times(PER_CHARACTER)).add(NOMINAL);
            }
            if overload.ends_with("_string") {
                cost = cost.add(characters(first));
            }
            Call::of(cost)
        }
        "validate" => {
            let text = unknown(first).times(PER_CHARACTER);
            Call::of(text.times(FORMAT_PATTERN * PER_PATTERN_CHARACTER))
        }
        _ => return None,
    })
}
