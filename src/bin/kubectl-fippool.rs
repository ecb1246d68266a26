//! The kubectl plugin `kubectl fippool`; all of it is in the room [`caip_openstack::plugin`].

use std::process::ExitCode;

fn main() -> ExitCode {
    caip_openstack::plugin::main(std::env::args_os())
}
