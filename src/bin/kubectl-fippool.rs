//! The kubectl plugin `kubectl fippool`: see [`caip_openstack::plugin`].

use std::process::ExitCode;

fn main() -> ExitCode {
    caip_openstack::plugin::main(std::env::args_os())
}
