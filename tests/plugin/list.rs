//! Which addresses do the pools have, and which may a firewall let in?

use std::io::{BufRead, BufReader};

use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::support::{Kind, Manifest, RECOVERY, claim, controller, pool, with_namespace};

async fn cluster(ns: &Namespace) {
    let infrastructure =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": "demo"});
    let cluster = json!({"metadata": {"name": "demo"}, "spec": {"infrastructureRef": infrastructure}});
    ns.create(Manifest::new(Kind::Cluster, cluster)).await;
}

/// A pool with a list of one floating IP that no claim has, and two claims: one of a machine of the cluster `demo`.
async fn served(ns: &Namespace) -> [String; 3] {
    ns.create_secret_for("demo").await;
    controller();
    cluster(ns).await;
    ns.create(pool("public").network("public")).await;
    let server = ns.create(Manifest::new(Kind::Server, json!({"metadata": {"name": "web-0"}}))).await;
    let first = ns.bind(claim("web-0").of_cluster("demo").owned_by(&server)).await;
    let second = ns.bind(claim("web-1")).await;
    let listed = ns.create_floating_ip("public").await.address;
    ns.create(pool("edge").list([&listed])).await;
    ns.await_condition(Kind::Pool, "edge", "Ready", "True", "Ready", RECOVERY).await;
    [first, second, listed]
}

fn row<'a>(list: &'a Value, address: &str) -> &'a Value {
    let rows = list["items"].as_array().expect("there are items");
    rows.iter().find(|row| row["address"] == address).unwrap_or_else(|| panic!("{address} is not in {list:#}"))
}

#[tokio::test]
async fn addresses_are_listed_with_their_machines_and_selected_by_labels_pools_and_states() {
    with_namespace(async |ns| {
        let [first, second, listed] = served(ns).await;
        let (code, list) = asked(ns, &["list"]).await;
        assert_eq!((code, list["items"].as_array().map(Vec::len)), (0, Some(3)), "{list:#}");
        let of_machine = row(&list, &first);
        let fields = ["state", "pool", "claim", "machine", "cluster", "origin"].map(|field| of_machine[field].as_str());
        let expected = ["Allocated", "public", "web-0-floating-ip-address", "web-0", "demo", "created"];
        assert_eq!(fields, expected.map(Some));
        assert_eq!(row(&list, &listed)["state"], "Listed");

        let addresses = async |args: &[&str]| {
            let ended =
                plugin(ns, &[args, &["-o", "jsonpath={range .items[*]}{.address}{\"\\n\"}{end}"]].concat()).await;
            assert_eq!(ended.code, 0, "{ended:?}");
            ended.out.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            addresses(&["list", "-l", "cluster.x-k8s.io/cluster-name=demo"]).await,
            std::slice::from_ref(&first)
        );
        assert_eq!(addresses(&["list", "edge"]).await, std::slice::from_ref(&listed));
        assert_eq!(addresses(&["list", "--state", "Listed"]).await, std::slice::from_ref(&listed));
        let names = plugin(ns, &["list", "public", "-o", "name"]).await.out;
        assert!(names.contains("ipaddress.ipam.cluster.x-k8s.io/web-0-floating-ip-address\n"), "{names}");
        let wrong = plugin(ns, &["list", "-l", "a b"]).await;
        assert!(wrong.code == 4 && wrong.err.contains("--selector"), "{wrong:?}");
        let table = plugin(ns, &["list"]).await.out;
        assert!(table.starts_with("ADDRESS") && table.contains(&second), "{table}");
    })
    .await;
}

#[tokio::test]
async fn an_allow_list_has_the_addresses_of_the_pools_and_no_others() {
    with_namespace(async |ns| {
        let all = served(ns).await;
        // Anyone with permission may create an IPAddress.
        let made_up = json!({
            "metadata": {"name": "made-up"},
            "spec": {
                "claimRef": {"name": "web-0-floating-ip-address"}, "address": "198.51.100.9", "prefix": 32,
                "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "public"}
            }
        });
        ns.create(Manifest::new(Kind::Address, made_up)).await;
        let mut expected: Vec<std::net::IpAddr> =
            all.iter().map(|address| address.parse().expect("an address")).collect();
        expected.sort();
        let cidrs: String = expected.iter().map(|address| format!("{address}/32\n")).collect();
        assert_eq!(plugin(ns, &["list", "-o", "cidr"]).await.out, cidrs);
        let elements = expected.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let nft = plugin(ns, &["list", "-o", "nft"]).await.out;
        assert!(nft.contains(&format!("add element inet fippool fippool_v4 {{ {elements} }}\n")), "{nft}");
        let csv = plugin(ns, &["list", "-o", "csv"]).await.out;
        assert!(csv.starts_with("address,state,") && csv.contains("198.51.100.9,Stray,"), "{csv}");
        assert_eq!(plugin(ns, &["usage", "-o", "cidr"]).await.code, 2, "only the list has it");
    })
    .await;
}

#[tokio::test]
async fn neutron_adds_ports_and_what_no_claim_has() {
    with_namespace(async |ns| {
        let [first, _, listed] = served(ns).await;
        let cloud = ns.cloud().await;
        let port = cloud.port("private").await;
        let fip = cloud.find(&first).await.expect("it is there");
        cloud.attach(&fip.id, &port).await;
        let (code, list) = asked(ns, &["list", "--neutron"]).await;
        assert_eq!(code, 0, "{list:#}");
        assert_eq!(row(&list, &first)["port"], port.as_str());
        assert_eq!(row(&list, &first)["floatingIPID"], fip.id.as_str());
        assert_eq!(row(&list, &listed)["state"], "Free");
        cloud.detach(&fip.id).await;
    })
    .await;
}

#[tokio::test]
async fn a_watch_prints_what_changes() {
    with_namespace(async |ns| {
        let [first, ..] = served(ns).await;
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-fippool"));
        command.args(["list", "--watch", "-n", &ns.name]).env("KUBECONFIG", &ns.world.kubeconfig);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the plugin starts");
        let (sender, mut lines) = mpsc::unbounded_channel();
        let out = child.stdout.take().expect("it is a pipe");
        let reader = std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        let mut next = async |words: &[&str]| {
            let found = async {
                while let Some(line) = lines.recv().await {
                    if words.iter().all(|word| line.contains(word)) {
                        return;
                    }
                }
                panic!("the watch ended before {words:?}");
            };
            tokio::time::timeout(RECOVERY, found).await.unwrap_or_else(|_| panic!("no line with {words:?}"));
        };
        next(&["ADDRESS", "AGE"]).await;
        next(&[&first, "Allocated"]).await;
        let added = ns.bind(claim("web-2")).await;
        next(&[&added, "Allocated", "web-2"]).await;
        ns.release("web-2-floating-ip-address").await;
        next(&[&added, "Gone"]).await;
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        reader.join().expect("it does not panic");
    })
    .await;
}

/// A user who may only list is enough, and the flags of kubectl choose the user.
#[tokio::test]
async fn the_flags_choose_who_asks_and_are_named_in_errors() {
    with_namespace(async |ns| {
        let ended = plugin(ns, &["list", "--as", "nobody-at-all"]).await;
        assert!(
            ended.code == 4 && ended.err.contains("nobody-at-all") && ended.err.contains("cannot list"),
            "{ended:?}"
        );
        let admins = ["list", "--as", "nobody-at-all", "--as-group", "system:masters"];
        assert_eq!(plugin(ns, &admins).await.code, 0);
        let ended = plugin(ns, &["list", "--user", "nowhere"]).await;
        assert!(ended.code == 4 && ended.err.contains("no user nowhere (--user)"), "{ended:?}");
        assert_eq!(plugin(ns, &["list", "--token", "not-a-token"]).await.code, 4);
        let ended = plugin(ns, &["list", "--server", "https://127.0.0.1:1", "--request-timeout", "2s"]).await;
        assert!(ended.code == 4 && ended.err.contains("https://127.0.0.1:1"), "{ended:?}");
    })
    .await;
}
