#![no_main]
// The parser of YAML takes about a KiB for each level of nesting, of which there are at most 255.
caip_openstack_fuzz::target!(clouds_yaml, 512 << 10);
