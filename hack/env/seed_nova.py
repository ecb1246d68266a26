"""Creates what Nova needs in Keystone, and what a server needs in Nova and Glance. What exists is not changed, but for the
addresses of the services.

    seed_nova.py services|objects CLOUDS_FILE HOST_URL NOVA_PORT GLANCE_PORT PLACEMENT_PORT
"""
import base64
import os
import sys

import openstack

what, os.environ["OS_CLIENT_CONFIG_FILE"], host, nova_port, glance_port, placement_port = sys.argv[1:]
admin = openstack.connect(cloud="admin")


def seed_services():
    identity = admin.identity
    project = identity.find_project("service")
    user = identity.find_user("nova", ignore_missing=True) or identity.create_user(
        name="nova", password="nova", default_project_id=project.id, domain_id="default")
    for role in ("service", "admin"):
        identity.assign_project_role_to_user(project, user, identity.find_role(role))
    for name, kind, url in (("nova", "compute", f"{host}:{nova_port}/v2.1"),
                            ("glance", "image", f"{host}:{glance_port}"),
                            ("placement", "placement", f"{host}:{placement_port}")):
        service = identity.find_service(name, ignore_missing=True) or identity.create_service(name=name, type=kind)
        for interface in ("public", "internal"):
            endpoints = list(identity.endpoints(service_id=service.id, interface=interface))
            if not endpoints:
                identity.create_endpoint(service_id=service.id, interface=interface, region_id="RegionOne", url=url)
            elif endpoints[0].url != url:
                identity.update_endpoint(endpoints[0], url=url)


def seed_objects():
    if not any(image.name == "tiny" and image.status == "active" for image in admin.image.images()):
        admin.create_image("tiny", data=b"x" * 1024, disk_format="raw", container_format="bare", visibility="public",
                           wait=True)
    if not admin.compute.find_flavor("m1.tiny", ignore_missing=True):
        admin.compute.create_flavor(name="m1.tiny", ram=64, vcpus=1, disk=1)  # members may not boot one without a disk
    demo = openstack.connect(cloud="demo")
    if not demo.compute.find_keypair("demo", ignore_missing=True):  # nobody signs in: there is no private half
        key = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + os.urandom(32)
        demo.compute.create_keypair(name="demo", public_key=f"ssh-ed25519 {base64.b64encode(key).decode()} demo")


{"services": seed_services, "objects": seed_objects}[what]()
