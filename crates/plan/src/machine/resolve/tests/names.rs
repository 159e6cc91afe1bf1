//! Names.

use super::*;

#[test]
fn the_vm_is_named_by_the_spec_else_by_the_machine() {
    assert_eq!(resolved(json!({})).vm_name, "web");
    assert_eq!(resolved(json!({"name": "front"})).vm_name, "front");
}

#[rstest]
#[case("Web")]
#[case("-web")]
#[case("web..shop")]
#[case("web.-shop")]
#[case("")]
#[case("a23456789012345678901234567890123456789012345678901234567890abcd")]
fn that_no_vm_can_have_are_errors(#[case] name: &str) {
    assert_eq!(
        error(json!({"name": name})),
        (ErrorType::InvalidSpec, "spec.name".to_owned())
    );
}

#[test]
fn a_machine_without_a_name_is_an_error() {
    let mut nameless = machine(json!({}));
    nameless.metadata.name = None;
    let errors = resolve(&nameless, &cluster()).unwrap_err();
    assert_eq!(errors[0].path, "metadata.name");
}
