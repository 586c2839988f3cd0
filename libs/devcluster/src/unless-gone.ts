import { kubeFault } from "@muster/kube";

/** Undefined where there is no such object. */
export async function unlessMissing<Value>(call: Promise<Value>): Promise<Value | undefined> {
  try {
    return await call;
  } catch (error) {
    if (kubeFault(error)?.code === "not_found") return undefined;
    throw error;
  }
}

/** For a write that names a uid or a version: undefined where that has changed or gone meanwhile, which is seen again through the cache. */
export async function unlessGone<Value>(call: Promise<Value>): Promise<Value | undefined> {
  try {
    return await call;
  } catch (error) {
    const fault = kubeFault(error);
    if (fault?.code === "not_found" || fault?.code === "conflict") return undefined;
    // What a patch is told that names the object which was there before.
    if (fault?.code === "invalid_request" && fault.field === "metadata.uid") return undefined;
    throw error;
  }
}
