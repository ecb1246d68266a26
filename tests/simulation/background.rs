//! The controllers of Kubernetes that run beside ours: the garbage collector and the namespace controller.

use std::time::Duration;

use tokio::time::sleep;

use crate::api::ApiServer;
use crate::api::namespaces::{NAMESPACE_GRACE, NAMESPACE_RETRY};

pub async fn collect_garbage(server: ApiServer) {
    let mut news = server.news();
    loop {
        while server.collect() {
            sleep(Duration::from_millis(40)).await;
        }
        if news.changed().await.is_err() {
            return;
        }
        sleep(Duration::from_millis(60)).await;
    }
}

pub async fn end_namespaces(server: ApiServer) {
    let mut news = server.news();
    loop {
        while !server.has_terminating_namespace() {
            if news.changed().await.is_err() {
                return;
            }
        }
        sleep(NAMESPACE_GRACE).await;
        server.empty_namespaces();
        while server.has_terminating_namespace() {
            sleep(NAMESPACE_RETRY).await;
            server.empty_namespaces();
        }
    }
}
