"""Asks Neutron as a member until it answers well many times in a row: the first answers of a process that has just
started can be wrong (networks missing, "disallowed by policy") while its threads load the policy side by side.

    warm_up.py CLOUDS_FILE
"""
import sys
import time

from openstack import config, connection, exceptions

IN_A_ROW = 16  # two processes take turns; each is met with near certainty
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
        sys.exit(f"Neutron does not answer as it should: {missing}")
