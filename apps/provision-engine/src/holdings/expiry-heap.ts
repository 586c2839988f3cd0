type Entry = { readonly id: string; atNs: bigint; place: number };

/** Leases ordered by their next time, one time per id. Every change takes logarithmic time. */
export class ExpiryHeap {
  readonly #entries: Entry[] = [];
  readonly #byId = new Map<string, Entry>();

  get size(): number {
    return this.#entries.length;
  }

  /** The earliest time; undefined if the heap is empty. */
  get next(): bigint | undefined {
    return this.#entries[0]?.atNs;
  }

  /** Sets or replaces the time of the id. */
  set(id: string, atNs: bigint): void {
    let entry = this.#byId.get(id);
    if (entry === undefined) {
      entry = { id, atNs, place: this.#entries.length };
      this.#byId.set(id, entry);
      this.#entries.push(entry);
    }
    entry.atNs = atNs;
    this.#settle(entry.place);
  }

  delete(id: string): void {
    const entry = this.#byId.get(id);
    const last = entry && this.#entries.pop();
    if (entry === undefined || last === undefined) return;
    this.#byId.delete(id);
    if (last === entry) return;
    const { place } = entry;
    this.#put(place, last);
    this.#settle(place);
  }

  /** Removes and returns the ids whose time is strictly over, earliest first. */
  takeExpired(nowNs: bigint): string[] {
    const taken: string[] = [];
    for (let first = this.#entries[0]; first !== undefined && nowNs > first.atNs; first = this.#entries[0]) {
      taken.push(first.id);
      this.delete(first.id);
    }
    return taken;
  }

  #put(place: number, entry: Entry): void {
    this.#entries[place] = entry;
    entry.place = place;
  }

  #settle(place: number): void {
    let at = place;
    for (let above = (at - 1) >> 1; at > 0 && this.#isBefore(at, above); above = (at - 1) >> 1) {
      this.#swap(at, above);
      at = above;
    }
    for (;;) {
      const left = 2 * at + 1;
      const earliest = this.#isBefore(left + 1, left) ? left + 1 : left;
      if (!this.#isBefore(earliest, at)) return;
      this.#swap(at, earliest);
      at = earliest;
    }
  }

  #isBefore(a: number, b: number): boolean {
    const [first, second] = [this.#entries[a], this.#entries[b]];
    return first !== undefined && second !== undefined && first.atNs < second.atNs;
  }

  #swap(a: number, b: number): void {
    const [first, second] = [this.#entries[a], this.#entries[b]];
    if (first === undefined || second === undefined) return;
    this.#put(a, second);
    this.#put(b, first);
  }
}
