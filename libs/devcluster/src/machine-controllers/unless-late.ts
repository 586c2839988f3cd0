import { kubeFault } from "@muster/kube";

/** What was changed or went meanwhile is looked at in the next round. */
export async function unlessLate(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    const code = kubeFault(error)?.code;
    if (code !== "not_found" && code !== "conflict") throw error;
  }
}
