// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// What BatchSettlement takes, stores, emits and refuses with.
interface IBatchSettlement {
    /// The terms of a channel. They never change, because their hash is the channel's id.
    struct ChannelConfig {
        address payer;
        /// The key that signs vouchers. Zero: the payer signs, by EIP-1271 if it has code.
        address payerAuthorizer;
        address receiver;
        /// The account that may claim and refund for the receiver, by a signature or a call.
        address receiverAuthorizer;
        address token;
        /// Seconds between the start and the end of a withdrawal by the payer.
        uint40 withdrawDelay;
        bytes32 salt;
    }

    struct Voucher {
        ChannelConfig channel;
        uint128 maxClaimableAmount;
    }

    struct VoucherClaim {
        Voucher voucher;
        /// The signature of the voucher.
        bytes signature;
        /// The new total of the channel's claims. At most what the voucher allows.
        uint128 totalClaimed;
    }

    /// `balance`: all deposits less refunds and withdrawals. A claim does not lower it.
    struct Channel {
        uint128 balance;
        uint128 totalClaimed;
    }

    /// `initiatedAt`: block time. Zero means that no withdrawal is pending.
    struct Withdrawal {
        uint128 amount;
        uint40 initiatedAt;
    }

    /// Sums of one receiver in one token, over all its channels.
    struct Account {
        uint128 totalClaimed;
        uint128 totalSettled;
    }

    event ChannelCreated(bytes32 indexed channelId, ChannelConfig config);
    event ChannelClosed(bytes32 indexed channelId, ChannelConfig config);
    event Deposited(bytes32 indexed channelId, address indexed sender, uint128 amount, uint128 newBalance);
    event Claimed(bytes32 indexed channelId, address indexed sender, uint128 claimAmount, uint128 newTotalClaimed);
    event Settled(address indexed receiver, address indexed token, address indexed sender, uint128 amount);
    event Refunded(bytes32 indexed channelId, address indexed sender, uint128 amount);
    event WithdrawInitiated(bytes32 indexed channelId, uint128 amount, uint40 finalizeAfter);
    event WithdrawFinalized(bytes32 indexed channelId, address indexed sender, uint128 amount);

    error InvalidChannel();
    error WithdrawDelayOutOfRange();
    error ZeroDeposit();
    error InvalidCollector();
    error DepositOverflow();
    error DepositCollectionFailed();
    error EmptyBatch();
    error NotAuthorizedToClaim();
    error NotReceiverAuthorizer();
    error ClaimExceedsCeiling();
    error ClaimExceedsBalance();
    error InvalidSignature();
    error NothingToWithdraw();
    error WithdrawalAlreadyPending();
    error WithdrawAmountExceedsAvailable();
    error NotAuthorizedToFinalizeWithdraw();
    error WithdrawalNotPending();
    error WithdrawDelayNotElapsed();
    error NotAuthorizedToRefund();
    error ZeroRefund();
    error InvalidRefundNonce();
}
