import { kubeFault, unlessFault } from "@muster/kube";

/** For a write that names a uid or a version: undefined where that has changed or gone meanwhile, which the next look sees. */
export async function unlessGone<Value>(call: Promise<Value>): Promise<Value | undefined> {
  try {
    return await unlessFault(call, "not_found", "conflict");
  } catch (error) {
    const fault = kubeFault(error);
    // What a patch is told that names the object which was there before.
    if (fault?.code === "invalid_request" && fault.field === "metadata.uid") return undefined;
    throw error;
  }
}
