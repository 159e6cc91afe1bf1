//! Binary `kubevirt-operator`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubevirt_operator::main()
}
