import type { CallOptions, KubeCalls, KubeResource } from "./kube-calls.ts";
import type { KubeObject } from "./list-watch.ts";

/** Objects per page: 40 objects of the largest size that an API server stores, 1.5 MiB, fit into one answer. */
const PAGE = 40;

/**
 * Yields a whole list page by page, so that no answer grows with the cluster. Rejects with 410 if the server has dropped the list meanwhile: the caller starts
 * over.
 */
export async function* listPages<Object extends KubeObject>(
  calls: Pick<KubeCalls, "list">,
  resource: KubeResource,
  { query, ...options }: CallOptions = {},
  limit: number = PAGE,
): AsyncGenerator<readonly Object[]> {
  let after: string | undefined;
  do {
    const asked = { ...query, limit, ...(after !== undefined && { continue: after }) };
    const page = await calls.list<Object>(resource, { ...options, query: asked });
    yield page.items;
    after = page.continue;
  } while (after !== undefined);
}
