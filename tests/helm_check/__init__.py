"""`make helm-check`: the chart under Helm 3 and Helm 4, its manifests against the schemas of Kubernetes, its
promises against the manifests, and a gateway started from what a pod would see."""
