//! CEL validation rules that several fields share.

/// Matches quantities whose exponent has at most two digits. An API server takes minutes to parse one
/// like `1e1000000000`, so no rule may pass it on.
macro_rules! bounded_quantity {
    () => {
        "'^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$'"
    };
}

/// Is a DNS name (RFC 1123).
pub(crate) const IS_DNS_NAME: &str =
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')";

/// The same, or empty, which counts as not set.
pub(crate) const IS_DNS_NAME_OR_EMPTY: &str =
    "self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$')";

pub(crate) const DNS_NAME: &str = "must be a DNS name: lower case letters, digits, '-' and '.', beginning and ending with a letter or digit";

/// Is a DNS label (RFC 1123).
pub(crate) const IS_DNS_LABEL: &str = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";

pub(crate) const DNS_LABEL: &str = "must be a DNS label: lower case letters, digits and '-', beginning and ending with a letter or digit";

/// Is the name of a label or annotation.
pub(crate) const IS_QUALIFIED_NAME: &str = "self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$')";

pub(crate) const QUALIFIED_NAME: &str =
    "must be the name of a label, such as topology.kubernetes.io/zone";

/// Is an amount of memory or storage.
pub(crate) const IS_AMOUNT: &str = concat!(
    "self.matches(",
    bounded_quantity!(),
    ") && quantity(self).compareTo(quantity('1Mi')) >= 0"
);

/// Is an amount that Kubernetes and KubeVirt can count in bytes, even in sums. Strings do not use
/// `string(self)`: the API server cannot bound its length, and refuses the rule for its cost.
pub(crate) const IS_COUNTABLE: &str = concat!(
    "!self.matches(",
    bounded_quantity!(),
    ") || quantity(self).compareTo(quantity('1Ei')) <= 0"
);

/// The same for a number or string.
pub(crate) const IS_COUNTABLE_OR_BYTES: &str = concat!(
    "!string(self).matches(",
    bounded_quantity!(),
    ") || quantity(string(self)).compareTo(quantity('1Ei')) <= 0"
);

pub(crate) const COUNTABLE: &str = "must be at most 1Ei";

/// A number or string is an amount of memory.
pub(crate) const IS_AMOUNT_OR_BYTES: &str = concat!(
    "string(self).matches(",
    bounded_quantity!(),
    ") && quantity(string(self)).compareTo(quantity('1Mi')) >= 0"
);

pub(crate) const AMOUNT_OR_BYTES: &str =
    "must be a number of bytes, or a quantity such as 4Gi, of at least 1Mi";

/// The same, or zero, which counts as not set.
pub(crate) const IS_AMOUNT_OR_ZERO: &str = concat!(
    "string(self).matches(",
    bounded_quantity!(),
    ") && (quantity(string(self)).compareTo(quantity('1Mi')) >= 0 || sign(quantity(string(self))) == 0)"
);

/// A number or string is a bound. Zero means no bound.
pub(crate) const IS_BOUND: &str = concat!(
    "string(self).matches(",
    bounded_quantity!(),
    ") && sign(quantity(string(self))) >= 0"
);

/// A disk does not shrink. A change from one unit to the other is left to the operator, which never
/// shrinks a disk.
pub(crate) const GROWS: &str = concat!(
    "!has(oldSelf.size) || has(self.sizeGB) || has(self.size) && (!self.size.matches(",
    bounded_quantity!(),
    ") || !oldSelf.size.matches(",
    bounded_quantity!(),
    ") || quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0)"
);

/// The minimum memory of a class does not exceed its memory.
pub(crate) const LEAST_IS_BELOW: &str = concat!(
    "!has(self.minQuantity) || !string(self.minQuantity).matches(",
    bounded_quantity!(),
    ") || !string(self.quantity).matches(",
    bounded_quantity!(),
    ") || quantity(string(self.minQuantity)).compareTo(quantity(string(self.quantity))) <= 0"
);

/// The maximum memory of a class, if any, is not below its memory.
pub(crate) const MOST_IS_ABOVE: &str = concat!(
    "!has(self.maxQuantity) || !string(self.maxQuantity).matches(",
    bounded_quantity!(),
    ") || !string(self.quantity).matches(",
    bounded_quantity!(),
    ") || sign(quantity(string(self.maxQuantity))) == 0 || quantity(string(self.maxQuantity)).compareTo(quantity(string(self.quantity))) >= 0"
);
