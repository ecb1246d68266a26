"""Creates the users, projects, networks and quotas of the demo, tests and benchmark, then writes clouds.yaml. What exists
is not changed.

    seed.py KEYSTONE_URL NEUTRON_URL CLOUDS_FILE
"""
import os
import sys

import openstack
import yaml

keystone_url, neutron_url, clouds_file = sys.argv[1:]


def password_cloud(name):
    """The project and the password of a user are named like the user."""
    auth = {"auth_url": keystone_url, "username": name, "password": name, "project_name": name,
            "user_domain_id": "default", "project_domain_id": "default"}
    return {"region_name": "RegionOne", "auth": auth}


def connect(name):
    return openstack.connect(load_yaml_config=False, load_envvars=False, **password_cloud(name))


def ensure(find, create, name, **attributes):
    return find(name, ignore_missing=True) or create(name=name, **attributes)


# --- users --------------------------------------------------------------------
identity = connect("admin").identity
service = ensure(identity.find_service, identity.create_service, "neutron", type="network")
for interface in ("public", "internal"):
    if not list(identity.endpoints(service_id=service.id, interface=interface)):
        identity.create_endpoint(service_id=service.id, interface=interface, region_id="RegionOne", url=neutron_url)

users, projects = {}, {}
for name, project_name, roles in (("neutron", "service", ("service", "admin")),
                                  ("demo", "demo", ("member",)),
                                  ("other", "other", ("member",))):
    project = ensure(identity.find_project, identity.create_project, project_name, domain_id="default")
    user = ensure(identity.find_user, identity.create_user, name, password=name,
                  default_project_id=project.id, domain_id="default")
    for role in roles:
        identity.assign_project_role_to_user(project, user, identity.find_role(role))
    users[name], projects[project_name] = user, project

# --- external networks --------------------------------------------------------
network = connect("admin").network  # a new connection: Neutron was not in the catalogue before
for number, (name, cidr, pool) in enumerate((
        ("public", "203.0.113.0/24", ("203.0.113.10", "203.0.113.250")),
        ("public-large", "198.18.0.0/20", None),
        ("tiny", "192.0.2.0/24", ("192.0.2.10", "192.0.2.12")))):
    net = ensure(network.find_network, network.create_network, name, is_router_external=True,
                 provider_network_type="flat", provider_physical_network=f"physnet{number}")
    pools = {"allocation_pools": [{"start": pool[0], "end": pool[1]}]} if pool else {}
    ensure(network.find_subnet, network.create_subnet, f"{name}-v4", network_id=net.id, cidr=cidr,
           ip_version=4, enable_dhcp=False, **pools)
network.update_quota(projects["demo"].id, floating_ips=5000, ports=500)
network.update_quota(projects["other"].id, floating_ips=500, ports=500)

# --- the project of most tests ------------------------------------------------
demo = connect("demo")
network = demo.network
private = ensure(network.find_network, network.create_network, "private")
subnet = ensure(network.find_subnet, network.create_subnet, "private-v4", network_id=private.id,
                cidr="10.1.0.0/24", ip_version=4, enable_dhcp=False)
router = ensure(network.find_router, network.create_router, "r1",
                external_gateway_info={"network_id": network.find_network("public").id})
if not list(network.ports(device_id=router.id, network_id=private.id)):
    network.add_interface_to_router(router, subnet_id=subnet.id)
ensure(network.find_port, network.create_port, "p1", network_id=private.id)

user = users["demo"]
credential = (demo.identity.find_application_credential(user.id, "fip", ignore_missing=True)
              or demo.identity.create_application_credential(user.id, "fip", secret="fip-secret"))

clouds = {name: password_cloud(name) for name in ("admin", "demo", "other")}
clouds["demo-app"] = {"region_name": "RegionOne", "auth_type": "v3applicationcredential", "auth": {
    "auth_url": keystone_url, "application_credential_id": credential.id,
    "application_credential_secret": "fip-secret"}}
with open(f"{clouds_file}.tmp", "w", encoding="utf-8") as file:
    yaml.safe_dump({"clouds": clouds}, file, sort_keys=False)
os.replace(f"{clouds_file}.tmp", clouds_file)
