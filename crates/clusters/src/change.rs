//! Reading an object, changing it and writing it back, by the one writer of the changed part.

use controller_runtime::{ApiResource, BoxError, Client};

/// Changes an object of a workspace as it is now, if it is still the one with that uid: a successor of
/// the same name is someone else's. Metadata and status are written apart, so `change` changes one of
/// them. Nothing is written when nothing changed; an object that is gone needs no change.
pub(crate) async fn change<K: ApiResource + PartialEq>(
    home: &Client,
    name: &str,
    uid: Option<&str>,
    change: impl FnOnce(&mut K) + Send,
) -> Result<(), BoxError> {
    let Some(before) = home.get::<K>("", name).await? else { return Ok(()) };
    if uid != before.metadata().uid.as_deref() {
        return Ok(());
    }
    let mut after = before.clone();
    change(&mut after);
    if after.metadata() != before.metadata() {
        home.update(&after).await?;
    } else if after != before {
        home.update_status(&after).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! What is written and what is left alone.

    use super::*;
    use api::{API_VERSION, Cluster, ClusterPhase};
    use controller_runtime::FakeApi;
    use std::sync::Arc;

    #[tokio::test]
    async fn only_what_changed_of_the_same_object_is_written() {
        let home = Client::new(Arc::new(FakeApi::default()), "root");
        let mut cluster =
            Cluster { api_version: API_VERSION.to_owned(), kind: "Cluster".to_owned(), ..Cluster::default() };
        cluster.metadata.name = Some("dev".to_owned());
        cluster.metadata.finalizers = Some(vec!["held".to_owned()]);
        let created = home.create(&cluster).await.unwrap();
        let uid = created.metadata.uid.as_deref();
        let read = async || home.get::<Cluster>("", "dev").await.unwrap().unwrap();

        change::<Cluster>(&home, "dev", uid, |_| ()).await.unwrap();
        assert_eq!(read().await, created, "nothing to write");
        change::<Cluster>(&home, "dev", uid, |cluster| cluster.status.phase = ClusterPhase::Ready).await.unwrap();
        assert_eq!(read().await.status.phase, ClusterPhase::Ready);
        change::<Cluster>(&home, "dev", uid, |cluster| cluster.metadata.finalizers = None).await.unwrap();
        assert_eq!(read().await.metadata.finalizers.unwrap_or_default(), Vec::<String>::new());
        let before = read().await;
        change::<Cluster>(&home, "dev", Some("of a predecessor"), |cluster| {
            cluster.status.phase = ClusterPhase::Draining;
        })
        .await
        .unwrap();
        assert_eq!(read().await, before, "a successor is left alone");
        change::<Cluster>(&home, "none", uid, |_| ()).await.unwrap();
    }
}
