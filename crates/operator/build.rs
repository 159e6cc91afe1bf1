//! Passes the target of the build to the command `version`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=KUBEVIRT_OPERATOR_TARGET={target}");
}
