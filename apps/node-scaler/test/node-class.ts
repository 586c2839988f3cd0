/** The smallest valid definition of the node class of AWS. */
export const NODE_CLASS = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "ec2nodeclasses.karpenter.k8s.aws" },
  spec: {
    group: "karpenter.k8s.aws",
    scope: "Cluster",
    names: { plural: "ec2nodeclasses", singular: "ec2nodeclass", kind: "EC2NodeClass", listKind: "EC2NodeClassList" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
};
