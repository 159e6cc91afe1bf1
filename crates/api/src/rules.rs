//! CEL rules that several fields share.

/// Quantities whose exponent has at most two digits. An API server that parses one like
/// `1e1000000000` computes for minutes, so no rule may hand it such a text.
macro_rules! bounded_quantity {
    () => {
        "'^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$'"
    };
}

/// A text is a DNS name (RFC 1123).
pub(crate) const IS_DNS_NAME: &str =
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')";

/// What to say of a text that is no DNS name.
pub(crate) const DNS_NAME: &str = "must be a DNS name: lower case letters, digits, '-' and '.', beginning and ending with a letter or digit";

/// A text is a DNS label (RFC 1123).
pub(crate) const IS_DNS_LABEL: &str = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";

/// What to say of a text that is no DNS label.
pub(crate) const DNS_LABEL: &str = "must be a DNS label: lower case letters, digits and '-', beginning and ending with a letter or digit";

/// A text is an amount of memory or storage.
pub(crate) const IS_AMOUNT: &str = concat!(
    "self.matches(",
    bounded_quantity!(),
    ") && quantity(self).compareTo(quantity('1Mi')) >= 0"
);

/// A text that is an amount of memory or storage is not above what Kubernetes and KubeVirt can count in
/// bytes, with room to add some up. `string(self)` would do for texts too, but the API server does not
/// know how long its result is, and refuses the rule for its cost.
pub(crate) const IS_COUNTABLE: &str = concat!(
    "!self.matches(",
    bounded_quantity!(),
    ") || quantity(self).compareTo(quantity('1Ei')) <= 0"
);

/// The same for a number or text.
pub(crate) const IS_COUNTABLE_OR_BYTES: &str = concat!(
    "!string(self).matches(",
    bounded_quantity!(),
    ") || quantity(string(self)).compareTo(quantity('1Ei')) <= 0"
);

/// What to say of an amount that cannot be counted.
pub(crate) const COUNTABLE: &str = "must be at most 1Ei";

/// A number or text is an amount of memory.
pub(crate) const IS_AMOUNT_OR_BYTES: &str = concat!(
    "string(self).matches(",
    bounded_quantity!(),
    ") && quantity(string(self)).compareTo(quantity('1Mi')) >= 0"
);

/// What to say of a number or text that is no amount of memory.
pub(crate) const AMOUNT_OR_BYTES: &str =
    "must be a number of bytes, or a quantity such as 4Gi, of at least 1Mi";

/// A number or text is a bound, of which zero is none.
pub(crate) const IS_BOUND: &str = concat!(
    "string(self).matches(",
    bounded_quantity!(),
    ") && sign(quantity(string(self))) >= 0"
);

/// A disk is not smaller than it was.
pub(crate) const GROWS: &str = concat!(
    "!has(oldSelf.size) || has(self.size) && (!self.size.matches(",
    bounded_quantity!(),
    ") || !oldSelf.size.matches(",
    bounded_quantity!(),
    ") || quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0)"
);

/// The least memory of a class is not above its memory.
pub(crate) const LEAST_IS_BELOW: &str = concat!(
    "!has(self.minQuantity) || !string(self.minQuantity).matches(",
    bounded_quantity!(),
    ") || !string(self.quantity).matches(",
    bounded_quantity!(),
    ") || quantity(string(self.minQuantity)).compareTo(quantity(string(self.quantity))) <= 0"
);

/// The most memory of a class, if it is bounded, is not below its memory.
pub(crate) const MOST_IS_ABOVE: &str = concat!(
    "!has(self.maxQuantity) || !string(self.maxQuantity).matches(",
    bounded_quantity!(),
    ") || !string(self.quantity).matches(",
    bounded_quantity!(),
    ") || sign(quantity(string(self.maxQuantity))) == 0 || quantity(string(self.maxQuantity)).compareTo(quantity(string(self.quantity))) >= 0"
);
