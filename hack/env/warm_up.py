"""Asks Neutron as a member until it answers correctly many times in a row. The first answers of a new process can be
wrong (networks missing, "disallowed by policy"), since its threads load the policy concurrently.

    warm_up.py CLOUDS_FILE
"""
import sys
import time

from openstack import config, connection, exceptions

IN_A_ROW = 16  # there are two processes: both are almost certainly asked
DEADLINE = time.monotonic() + 60

clouds = config.OpenStackConfig(config_files=[sys.argv[1]], load_envvars=False)
network = connection.Connection(config=clouds.get_one("demo")).network

good = 0
while good < IN_A_ROW:
    try:
        names = {found.name for found in network.networks()}
        missing = {"public", "private"} - names
    except exceptions.SDKException as error:
        missing = error
    good = 0 if missing else good + 1
    if time.monotonic() > DEADLINE:
        sys.exit(f"Neutron does not answer correctly: {missing}")
