import type { V1Pod } from "@kubernetes/client-node";

/** A built pod. Its spec contains a user's template, whose fields have no static type. */
type PodManifest = {
  readonly apiVersion: "v1";
  readonly kind: "Pod";
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: object;
};

/** The manifest as the argument of a call. The API server validates the content of the template. */
export function toPodManifest(manifest: PodManifest): V1Pod {
  return manifest as object;
}
