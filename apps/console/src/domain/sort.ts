/** The order of a list in the query of an address: a column, and whether it is descending. */
export type Sort = { readonly sort?: string; readonly desc?: boolean };

export function readSort({ sort, desc }: Readonly<Record<string, unknown>>): Sort {
  if (typeof sort !== "string" || !/^[a-zA-Z]{1,30}$/.test(sort)) return {};
  return { sort, ...(desc === true && { desc: true }) };
}

/** Returns the next order when the user selects a column: ascending, descending, then the list's own order. */
export function nextSort({ sort, desc = false }: Sort, column: string): Sort {
  if (sort !== column) return { sort: column };
  return desc ? {} : { sort: column, desc: true };
}
