// One rank's part of a schedule, as an ns-3 Application: what it sends and receives, channel by channel.
#ifndef RANK_APPLICATION_H
#define RANK_APPLICATION_H

#include <ns3/application.h>

#include <span>
#include <vector>

namespace ns3
{

class SchedulePlayback;

/**
 * Holds the rank's send queue and receive queue of every channel and moves them on. Starts playing at its
 * StartTime.
 *
 * Attributes: Rank.
 */
class RankApplication : public Application
{
  public:
    static TypeId GetTypeId();

    uint32_t GetRank() const { return m_rank; }
    void SetPlayback(SchedulePlayback* playback) { m_playback = playback; }
    /** Transfers that this rank sends, and receives, on `channel`, in order. The memory must outlive this. */
    void AddChannel(uint16_t channel, std::span<const uint32_t> sends, std::span<const uint32_t> receives);

    /** True if nothing on this rank's side keeps the transfer from being sent, or received. */
    bool MaySend(uint16_t channel, uint32_t transfer) const { return m_started && IsHead(m_sends, channel, transfer); }
    bool MayReceive(uint16_t channel, uint32_t transfer) const { return m_started && IsHead(m_receives, channel, transfer); }
    void SendStarted(uint16_t channel) { m_sends[channel].busy = true; }
    void ReceiveStarted(uint16_t channel) { m_receives[channel].busy = true; }
    /** The next of the queue is done; offers the one after it. */
    void SendReleased(uint16_t channel);
    void ReceiveReleased(uint16_t channel);
    /** A transfer arrived; tells the playback of it and of those that it held up, in order. */
    void Arrived(uint16_t channel, uint32_t transfer);

  protected:
    void DoDispose() override;

  private:
    struct Queue
    {
        std::span<const uint32_t> transfers;
        size_t head = 0;    //!< the next to start, or under way
        size_t arrived = 0; //!< the next to arrive (receive queues)
        bool busy = false;  //!< the head is under way
        std::vector<uint32_t> early; //!< arrived before their turn
    };

    static bool IsHead(const std::vector<Queue>& queues, uint16_t channel, uint32_t transfer)
    {
        const Queue& queue = queues[channel];
        return !queue.busy && queue.head < queue.transfers.size() && queue.transfers[queue.head] == transfer;
    }

    void StartApplication() override;
    void Offer(const Queue& queue);
    void Advance(Queue& queue);

    uint32_t m_rank;
    bool m_started = false;
    SchedulePlayback* m_playback = nullptr;
    std::vector<Queue> m_sends;    //!< by channel
    std::vector<Queue> m_receives;
};

} // namespace ns3

#endif /* RANK_APPLICATION_H */
