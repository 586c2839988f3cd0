import type { CallOptions, KubeCalls, KubeObject, KubeResource } from "@muster/kube";

/** Objects of one page: 40 of the largest that an API server keeps, of 1.5 MiB, are within what one answer may have. */
const PAGE = 40;

/** Yields everything that is listed, page by page, so that no answer grows with the cluster. Rejects when the list is older than the server remembers: then it is begun anew. */
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
