import { toKubeFault, unlessFault } from "@muster/kube";

/** For a write that names a uid or a version: undefined after a change or a deletion, which the next pass sees. */
export async function unlessGone<Value>(call: Promise<Value>): Promise<Value | undefined> {
  try {
    return await unlessFault(call, "not_found", "conflict");
  } catch (error) {
    const fault = toKubeFault(error);
    // The answer to a patch with the uid of an earlier object.
    if (fault?.code === "invalid_request" && fault.field === "metadata.uid") return undefined;
    throw error;
  }
}
