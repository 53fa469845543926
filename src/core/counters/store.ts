import type { CounterRow, Rows } from '../rows.ts'
import type { HistoryRow, HistoryStretch } from './history.ts'
import type { LeaderboardEntry, LeaderboardPage, PageByName } from './pages.ts'
import type { CounterKey, CounterState } from './state.ts'

export interface CounterStore {
  rows: Rows<CounterKey, CounterRow>
  /** Reads counters, including those never written or defined, in any order, with one statement. */
  read(keys: readonly CounterKey[]): Promise<CounterState[]>
  list(namespace: string, page: PageByName): Promise<CounterState[]>
  /** At most a second behind. It includes all changes made by this process. */
  listLeaderboard(namespace: string, page: LeaderboardPage): Promise<LeaderboardEntry[]>
  /** Reads the totals of the periods that start in some time ranges, with one statement. */
  readHistory(stretches: readonly HistoryStretch[]): Promise<HistoryRow[]>
}
