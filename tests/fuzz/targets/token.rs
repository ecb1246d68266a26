#![no_main]
caip_openstack_fuzz::target!(token);
