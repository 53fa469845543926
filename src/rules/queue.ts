/**
 * Items in the order in which they were added. Each can be removed at any time, also while it is the current one of an
 * iteration.
 *
 * It takes the place of a `Set` where requests are added and removed all the time. V8 rebuilds the table of a set after as
 * many changes as it has room for, and lets the old table reference the new one. Once one of these tables is in the old
 * generation, each keeps the next one alive, with all requests in it, until the next full collection. Here a removed item
 * references no other.
 */
export class Queue<Item> implements Iterable<Item> {
  #first: QueuePlace<Item> | undefined
  #last: QueuePlace<Item> | undefined
  size = 0

  /** Adds an item as the last one. Returns its place, which removes it. */
  add(item: Item): QueuePlace<Item> {
    const place: QueuePlace<Item> = { item, previous: this.#last, next: undefined }
    if (this.#last) this.#last.next = place
    else this.#first = place
    this.#last = place
    this.size += 1
    return place
  }

  /** Removes an item by the place that it has in this queue. */
  remove(place: QueuePlace<Item>): void {
    const { previous, next } = place
    if (previous) previous.next = next
    else this.#first = next
    if (next) next.previous = previous
    else this.#last = previous
    place.previous = undefined
    place.next = undefined
    this.size -= 1
  }

  *[Symbol.iterator](): Iterator<Item> {
    for (let place = this.#first; place; ) {
      const { item, next } = place
      yield item
      place = next
    }
  }
}

export interface QueuePlace<Item> {
  readonly item: Item
  previous: QueuePlace<Item> | undefined
  next: QueuePlace<Item> | undefined
}
