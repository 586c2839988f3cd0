import { generate } from "selfsigned";
import { HOST_IP } from "./build-node.ts";

/** Creates a certificate for the loopback address, for API servers that do not verify its authority. */
export async function makeKubeletCertificate(): Promise<{ readonly cert: string; readonly key: string }> {
  const made = await generate([{ name: "commonName", value: "muster-kubelet" }], {
    keyType: "ec",
    algorithm: "sha256",
    extensions: [{ name: "subjectAltName", altNames: [{ type: 7, ip: HOST_IP }] }],
  });
  return { cert: made.cert, key: made.private };
}
